"""What tests of real processes share: a folder with the programs, text to train on, and nothing left behind."""

import contextlib
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time
import unittest

WAIT_SECONDS = 120  # for things that must happen at some time


class RealProcesses(unittest.TestCase):
    PROGRAMS = ["client/strata", "worker/agent/strata-worker", "worker/trainer/strata-trainer"]  # where Bazel puts them

    def run(self, result=None):
        """Tells how long each test took: by design less than ten seconds, on a machine that has time."""
        begin = time.monotonic()
        try:
            return super().run(result)
        finally:
            print(f"{time.monotonic() - begin:7.1f} s  {self._testMethodName}", file=sys.stderr, flush=True)

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="strata-test-"))
        self.addCleanup(self.clean)
        (self.folder / "bin").mkdir()
        for path in sys.argv[1:] or self.PROGRAMS:  # one folder: programs find each other beside themselves
            shutil.copy(path, self.folder / "bin")
        words = ["river", "stone", "light", "under", "every", "house", "morning", "water"]
        text = " ".join(words[i * i % 7] + words[i % 8] for i in range(4000))
        (self.folder / "text.txt").write_text(text)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("STRATA_", "XDG_"))}
        self.env.update(HOME=str(self.folder), STRATA_TEST_FOLDER=str(self.folder), NO_COLOR="1")

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

    def logs(self) -> str:
        """Told when a wait was in vain."""
        return ""

    def wait_for(self, condition, what: str, within: float = WAIT_SECONDS):
        end = time.monotonic() + within
        while not (value := condition()):
            self.assertLess(time.monotonic(), end, f"not within {within} s: {what}; {self.logs()}")
            time.sleep(0.02)
        return value
