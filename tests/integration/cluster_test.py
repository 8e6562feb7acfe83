"""Real processes of `strata up`: a job on a local cluster ends by itself, with the numbers of `strata run`, whatever
is killed meanwhile; and nothing is left after `strata down`."""

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
STEPS, EVERY = 400, 20


class ClusterTest(unittest.TestCase):
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

    def up(self):
        self.strata("up", "--agents", 2, "--dir", self.cluster)

    def down(self):
        self.strata("down", "--dir", self.cluster)
        self.assertEqual(self.processes(), [])

    def job(self, name: str) -> pathlib.Path:
        path = self.folder / f"{name}.yaml"
        path.write_text(f"""
model: {{family: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 128, vocab: 256}}
data: {{train: [{{path: {self.folder}/text.txt}}]}}
train: {{steps: {STEPS}, sequence: 64, global_batch: 8, micro_batch: 1, schedule: {{warmup_steps: 5}}}}
parallel: {{data: 2, shard: zero1}}
checkpoint: {{every_steps: {EVERY}}}
""")
        return path

    def get(self, name: str) -> dict:
        return json.loads(self.strata("get", "job", name, "-o", "json").stdout)

    def records(self, directory) -> list:
        path = pathlib.Path(directory) / "metrics.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def numbers(self, directory) -> list:
        return [(r["step"], r["loss"], r["grad_norm"]) for r in self.records(directory)]

    def test_a_job_survives_every_kill_with_the_numbers_of_a_run_in_the_terminal(self):
        self.strata("run", self.job("job"), "--dir", self.folder / "reference")
        self.up()
        self.strata("submit", self.job("job"))
        directory = self.get("job")["directory"]
        for count, binary in enumerate(("strata-trainer", "strata-worker", "strata-controller"), 1):
            passed = count * 3 * EVERY
            self.wait_for(lambda: len(self.records(directory)) > passed, f"step {passed}")
            before = self.processes(binary)
            os.kill(before[0], signal.SIGKILL)
            self.wait_for(lambda: set(self.processes(binary)) - set(before), f"another {binary}")
        self.strata("wait", "job", "--for=state=SUCCEEDED")
        ended = self.get("job")
        self.assertEqual((ended["state"], ended["step"], ended["epoch"]), ("SUCCEEDED", STEPS, 2))
        self.assertEqual(self.numbers(directory), self.numbers(self.folder / "reference"))
        self.down()

    def test_a_job_goes_on_after_down_and_up(self):
        self.up()
        self.strata("submit", self.job("job"))
        directory = self.get("job")["directory"]
        self.wait_for(lambda: len(self.records(directory)) > 2 * EVERY, "two checkpoints' steps")
        self.down()
        self.assertLess(len(self.records(directory)), STEPS)
        self.up()
        self.assertEqual([n["name"] for n in json.loads(self.strata("get", "nodes", "-o", "json").stdout)], ["n0", "n1"])
        attached = self.strata("watch", "job")
        self.assertIn("SUCCEEDED", attached.stderr)
        self.assertEqual([r["step"] for r in self.records(directory)], list(range(1, STEPS + 1)))
        self.down()

    def test_a_cancelled_job_ends_and_its_name_is_known(self):
        self.up()
        self.strata("submit", self.job("job"))
        directory = self.get("job")["directory"]
        self.wait_for(lambda: len(self.records(directory)) > 2, "two steps")
        self.strata("cancel", "job")
        self.strata("wait", "job", "--for=state=CANCELLED")
        self.strata("wait", "job", "--for=state=SUCCEEDED", code=1)
        self.strata("get", "job", "nobody", code=5)
        self.down()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
