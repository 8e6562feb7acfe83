"""What tests of real clusters share: `strata up` and `down`, and questions to the cluster."""

import json
import pathlib
import subprocess

import real_processes
from real_processes import WAIT_SECONDS


class RealCluster(real_processes.RealProcesses):
    PROGRAMS = [*real_processes.RealProcesses.PROGRAMS, "controller/strata-controller"]

    def setUp(self):
        super().setUp()
        self.cluster = self.folder / "cluster"

    def logs(self) -> str:
        return "\n".join(f"{path.name}: {path.read_text(errors='replace')[-2000:]}"
                         for path in sorted(self.cluster.glob("log/*.log")))

    def strata(self, *arguments, code: int = 0) -> subprocess.CompletedProcess:
        ended = subprocess.run([self.folder / "bin" / "strata", *map(str, arguments)], env=self.env,
                               cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                               timeout=WAIT_SECONDS)
        self.assertEqual(ended.returncode, code, f"{arguments}: {ended.stderr}\n{self.logs()}")
        return ended

    def answers(self) -> bool:
        """Whether the controller serves: a restarted process needs a moment until it does."""
        return subprocess.run([self.folder / "bin" / "strata", "get", "nodes"], env=self.env, cwd=self.folder,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=WAIT_SECONDS).returncode == 0

    def down(self):
        self.strata("down", "--dir", self.cluster)
        self.assertEqual(self.processes(), [])

    def get(self, name: str) -> dict:
        return json.loads(self.strata("get", "job", name, "-o", "json").stdout)

    def records(self, directory) -> list:
        path = pathlib.Path(directory) / "metrics.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def numbers(self, directory) -> list:
        return [(r["step"], r["loss"], r["grad_norm"]) for r in self.records(directory)]
