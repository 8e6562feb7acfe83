"""A cluster whose daemons a test starts, ends and replaces one by one: a controller, and agents each behind a proxy that can be
cut, over a storage that can be made slow."""

import json
import os
import pathlib
import shutil
import signal
import subprocess

import proxy
import real_cluster


class Daemons(real_cluster.RealCluster):
    PROGRAMS = [*real_cluster.RealCluster.PROGRAMS, "tests/integration/slow_storage.so"]

    def setUp(self):
        super().setUp()
        self.daemons, self.proxies = {}, {}
        self.rules = self.folder / "slow"
        self.env.update(LD_PRELOAD=str(self.folder / "bin/slow_storage.so"), STRATA_SLOW_STORAGE=str(self.rules))
        (self.cluster / "log").mkdir(parents=True)

    def clean(self):
        for each in self.proxies.values():
            each.close()
        super().clean()
        for process in self.daemons.values():
            process.wait()

    # --- daemons; `programs`: the folder that theirs is in

    def start(self, name: str, program: pathlib.Path, *arguments):
        with open(self.cluster / f"log/{name}.log", "ab") as log:
            self.daemons[name] = subprocess.Popen([program, *map(str, arguments)], env=self.env, cwd=self.folder,
                                                  stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def start_controller(self, *flags, programs: str = "bin"):
        """On the port that it had before, if it had one."""
        ready = self.cluster / "ready"
        ready.unlink(missing_ok=True)
        self.start("controller", self.folder / programs / "strata-controller", "--listen",
                   self.env.get("STRATA_SERVER", "127.0.0.1:0"), "--metrics-listen", "127.0.0.1:0", "--dir",
                   self.cluster / "controller", "--ready-file", ready, *flags)
        self.wait_for(lambda: ready.exists() and ready.read_text() or self.daemons["controller"].poll() is not None,
                      "the controller serves")
        self.assertIsNone(self.daemons["controller"].poll(), self.logs())
        about = json.loads(ready.read_text())
        self.env["STRATA_SERVER"], self.metrics_address = about["address"], about["metrics_address"]

    def start_agent(self, node: str, *flags, programs: str = "bin"):
        if node not in self.proxies:
            self.proxies[node] = proxy.Proxy(self.env["STRATA_SERVER"])
        self.start(node, self.folder / programs / "strata-worker", "--controller", self.proxies[node].address, "--node", node,
                   "--dir", self.cluster / node, "--devices", 1, "--threads-per-device", 1, *flags)

    def start_cluster(self, nodes: int = 2, *flags, **timing) -> list:
        """Agents get the flags; limits in seconds, as a policy names them."""
        self.start_controller()
        if timing:
            policy = self.folder / "policy.yaml"
            policy.write_text(f"timing: {json.dumps(timing)}\n")
            self.strata("apply", policy)
        names = [f"n{number}" for number in range(nodes)]
        for node in names:
            self.start_agent(node, *flags)
        self.wait_for(lambda: self.answers() and len(self.nodes()) == nodes, "all nodes")
        return names

    def end(self, name: str, number: int = signal.SIGTERM) -> int:
        process = self.daemons.pop(name)
        process.send_signal(number)
        return process.wait(real_cluster.WAIT_SECONDS)

    def another_build(self, folder: str):
        """The same programs under another stamp: what a build is told by is the digest of its file."""
        shutil.copytree(self.folder / "bin", self.folder / folder)
        for program in (self.folder / folder).iterdir():
            with open(program, "ab") as file:
                file.write(b"another build")

    def nodes(self) -> dict:
        return {node["name"]: node for node in json.loads(self.strata("get", "nodes", "-o", "json").stdout)}

    def trainers(self) -> list:
        return self.processes("strata-trainer")

    @staticmethod
    def parent(pid: int) -> int:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

    # --- faults

    def slow(self, *rules):
        """(operation, part of a path, seconds) each, of one program if that is named too; none: the storage is as fast as
        it is."""
        written = self.folder / "slow.next"
        written.write_text("".join(" ".join(map(str, rule)) + "\n" for rule in rules))
        os.replace(written, self.rules)

    def delays(self) -> list:
        """Of the operations that a rule met."""
        told = self.folder / "slow.told"
        return told.read_text().splitlines() if told.exists() else []

    def cut(self):
        for each in self.proxies.values():
            each.cut()

    def heal(self):
        for each in self.proxies.values():
            each.heal()

    # --- a job

    def job(self, name: str = "job", ranks: int = 2, steps: int = 100_000, every: int = 0) -> pathlib.Path:
        path = self.folder / f"{name}.yaml"
        path.write_text(f"""
model: {{family: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 128, vocab: 256}}
data: {{train: [{{path: {self.folder}/text.txt}}]}}
train: {{steps: {steps}, sequence: 64, global_batch: 8, micro_batch: 1, schedule: {{name: constant, warmup_steps: 5}}}}
parallel: {{data: {ranks}, shard: zero1, virtual_shards: 4}}
checkpoint: {{every_steps: {every}}}
""")
        return path

    def submit(self, name: str = "job", **shape):
        """Waits until it trains; `directory` is that of the job that was submitted last."""
        self.strata("submit", self.job(name, **shape))
        self.directory = pathlib.Path(self.get(name)["directory"])
        self.wait_for_steps(3)

    def step(self) -> int:
        records = self.records(self.directory)
        return records[-1]["step"] if records else 0

    def wait_for_steps(self, more: int):
        goal = self.step() + more
        self.wait_for(lambda: self.step() >= goal, f"step {goal}")
