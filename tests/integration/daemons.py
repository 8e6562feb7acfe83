"""A cluster whose daemons a test starts and stops one by one: a controller and agents, each from a folder of programs."""

import json
import pathlib
import shutil
import signal
import subprocess

import real_cluster


class Daemons(real_cluster.RealCluster):
    def setUp(self):
        super().setUp()
        self.cluster.mkdir()
        (self.cluster / "log").mkdir()
        self.address = "127.0.0.1:0"  # any port at first, then the same again
        self.controller = None
        self.agents = {}

    def start(self, name: str, program: pathlib.Path, *arguments) -> subprocess.Popen:
        with open(self.cluster / "log" / f"{name}.log", "ab") as log:
            return subprocess.Popen([program, *map(str, arguments)], env=self.env, cwd=self.folder,
                                    stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self, process: subprocess.Popen, how: int = signal.SIGTERM):
        process.send_signal(how)
        process.wait(real_cluster.WAIT_SECONDS)

    def start_controller(self, *flags, programs: str = "bin"):
        ready = self.cluster / "ready"
        ready.unlink(missing_ok=True)
        self.controller = self.start("controller", self.folder / programs / "strata-controller", "--dir",
                                     self.cluster / "controller", "--listen", self.address, "--ready-file", ready,
                                     *flags)
        self.wait_for(lambda: ready.exists() or self.controller.poll() is not None, "the controller serves")
        self.assertIsNone(self.controller.poll(), self.logs())
        self.address = json.loads(ready.read_text())["address"]
        self.env["STRATA_SERVER"] = self.address

    def start_agent(self, node: str, *flags, programs: str = "bin"):
        self.agents[node] = self.start(node, self.folder / programs / "strata-worker", "--controller", self.address,
                                       "--node", node, "--dir", self.cluster / node, "--devices", 1,
                                       "--threads-per-device", 1, *flags)

    def nodes(self) -> dict:
        return {n["name"]: n for n in json.loads(self.strata("get", "nodes", "-o", "json").stdout)}

    def another_build(self, folder: str):
        """The same programs under another stamp: what a build is told by is the digest of its file."""
        shutil.copytree(self.folder / "bin", self.folder / folder)
        for program in (self.folder / folder).iterdir():
            with open(program, "ab") as file:
                file.write(b"another build")

    def job(self, steps: int, every: int) -> pathlib.Path:
        path = self.folder / "job.yaml"
        path.write_text(f"""
model: {{family: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 128, vocab: 256}}
data: {{train: [{{path: {self.folder}/text.txt}}]}}
train: {{steps: {steps}, sequence: 64, global_batch: 8, micro_batch: 1, schedule: {{warmup_steps: 5}}}}
parallel: {{data: 2, shard: zero1}}
checkpoint: {{every_steps: {every}}}
""")
        return path

    def step(self, directory) -> int:
        records = self.records(directory)
        return records[-1]["step"] if records else 0
