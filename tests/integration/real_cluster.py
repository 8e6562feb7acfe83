"""What tests of real clusters share: a folder with the programs, `strata up` and `down`, and nothing left behind."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

# As arguments, or where Bazel puts them.
PROGRAMS = sys.argv[1:] or ["client/strata", "controller/strata-controller", "worker/agent/strata-worker",
                            "worker/trainer/strata-trainer"]
WAIT_SECONDS = 120  # for things that must happen at some time


class RealCluster(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="strata-cluster-"))
        self.cluster = self.folder / "cluster"
        self.addCleanup(self.clean)
        (self.folder / "bin").mkdir()
        for path in PROGRAMS:  # one folder: programs find each other beside themselves
            shutil.copy(path, self.folder / "bin")
        words = ["river", "stone", "light", "under", "every", "house", "morning", "water"]
        text = " ".join(words[i * i % 7] + words[i % 8] for i in range(4000))
        (self.folder / "text.txt").write_text(text)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("STRATA_", "XDG_"))}
        self.env.update(HOME=str(self.folder), STRATA_CLUSTER_TEST=str(self.folder), NO_COLOR="1")

    def clean(self):
        for _ in range(20):  # a supervisor may start others while it is looked for
            left = self.processes()
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not left:
                break
        shutil.rmtree(self.folder, ignore_errors=True)

    def processes(self, name: str | None = None) -> list:
        """Live processes of this test, by the mark in their environment; those of one program."""
        mark, found = str(self.folder).encode(), []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                program = pathlib.Path((entry / "cmdline").read_bytes().split(b"\0")[0].decode()).name
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                if mark in (entry / "environ").read_bytes() and state not in "ZX" and name in (None, program):
                    found.append(int(entry.name))
            except OSError:
                continue
        return sorted(found)

    def wait_for(self, condition, what: str, within: float = WAIT_SECONDS):
        end = time.monotonic() + within
        while not (value := condition()):
            self.assertLess(time.monotonic(), end, f"not within {within} s: {what}; {self.logs()}")
            time.sleep(0.02)
        return value

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
