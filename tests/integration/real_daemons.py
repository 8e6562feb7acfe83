"""What tests of a cluster's daemons share that need more than `strata up`: a proxy before each agent, a storage that can
be made slow, and limits of a policy that are scaled down, so that minutes become seconds."""

import json
import os
import pathlib
import signal
import subprocess
import urllib.request

import proxy
import real_cluster

# What a minute is for a real cluster is seconds here. Of ranks the limits are as they are where a test does not say others.
TIMING = {"heartbeat_seconds": 0.2, "node_lost_seconds": 1.2, "lease_seconds": 3, "stop_seconds": 1}


class RealDaemons(real_cluster.RealCluster):
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

    # --- daemons

    def start(self, name: str, *command):
        with open(self.cluster / f"log/{name}.log", "a") as log:
            self.daemons[name] = subprocess.Popen([self.folder / "bin" / command[0], *map(str, command[1:])], env=self.env,
                                                  cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def start_controller(self):
        """On the port that it had before, if it had one."""
        ready = self.cluster / "ready"
        ready.unlink(missing_ok=True)
        self.start("controller", "strata-controller", "--listen", self.env.get("STRATA_SERVER", "127.0.0.1:0"),
                   "--metrics-listen", "127.0.0.1:0", "--dir", self.cluster / "controller", "--ready-file", ready)
        about = json.loads(self.wait_for(lambda: ready.exists() and ready.read_text(), "a controller"))
        self.env["STRATA_SERVER"], self.metrics_address = about["address"], about["metrics_address"]

    def start_agent(self, node: str):
        if node not in self.proxies:
            self.proxies[node] = proxy.Proxy(self.env["STRATA_SERVER"])
        self.start(node, "strata-worker", "--controller", self.proxies[node].address, "--node", node, "--dir",
                   self.cluster / node, "--threads-per-device", 1)

    def start_cluster(self, nodes: int = 2, **timing):
        self.start_controller()
        policy = self.folder / "policy.yaml"
        policy.write_text(f"timing: {json.dumps({**TIMING, **timing})}\n")
        self.strata("apply", policy)
        names = [f"n{number}" for number in range(nodes)]
        for node in names:
            self.start_agent(node)
        self.wait_for(lambda: len(json.loads(self.strata("get", "nodes", "-o", "json").stdout)) == nodes, "all nodes")
        return names

    def end(self, name: str, number: int) -> int:
        process = self.daemons.pop(name)
        process.send_signal(number)
        return process.wait()

    def trainers(self) -> list:
        return self.processes("strata-trainer")

    @staticmethod
    def parent(pid: int) -> int:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

    # --- faults

    def slow(self, *rules):
        """(operation, part of a path, seconds) each; none: the storage is as fast as it is."""
        written = self.folder / "slow.next"
        written.write_text("".join(f"{operation} {part} {seconds}\n" for operation, part, seconds in rules))
        os.replace(written, self.rules)

    def cut(self):
        for each in self.proxies.values():
            each.cut()

    def heal(self):
        for each in self.proxies.values():
            each.heal()

    # --- a job

    def submit(self, name: str = "job", ranks: int = 2, steps: int = 100_000, every: int = 0):
        path = self.folder / f"{name}.yaml"
        path.write_text(f"""
model: {{family: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 128, vocab: 256}}
data: {{train: [{{path: {self.folder}/text.txt}}]}}
train: {{steps: {steps}, sequence: 64, global_batch: 8, micro_batch: 1, schedule: {{name: constant, warmup_steps: 5}}}}
parallel: {{data: {ranks}, shard: zero1, virtual_shards: 4}}
checkpoint: {{every_steps: {every}}}
""")
        self.strata("submit", path)
        self.directory = pathlib.Path(self.get(name)["directory"])
        self.wait_for_steps(3)

    def step(self) -> int:
        records = self.records(self.directory)
        return records[-1]["step"] if records else 0

    def wait_for_steps(self, more: int):
        goal = self.step() + more
        self.wait_for(lambda: self.step() >= goal, f"step {goal}")

    def assert_untouched(self, name: str = "job"):
        """Its ranks were never started anew, and nothing of it was counted or told as a failure."""
        job = self.get(name)
        self.maxDiff = None
        self.assertEqual((job["state"], job["epoch"], job["events"]), ("RUNNING", 1, []), self.logs())

    def gauge(self, series: str) -> float:
        with urllib.request.urlopen(f"http://{self.metrics_address}/metrics", timeout=30) as page:
            lines = page.read().decode().splitlines()
        return float(next(line for line in lines if line.startswith(series + " ")).split()[1])

    def kill_controller(self):
        self.end("controller", signal.SIGKILL)
