"""Checkpoints that are damaged on disk while a job trains on a cluster of real processes: it goes back to one that is
whole, says so, and ends with the numbers of `strata run`."""

import contextlib
import os
import pathlib
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_cluster

STEPS, EVERY, KEEP = 1500, 20, 3
QUIET_SECONDS = 0.5  # without a change on disk


def flip(path: pathlib.Path):
    data = bytearray(path.read_bytes())
    data[-len(data) // 3] ^= 1
    path.write_bytes(data)


def truncate(path: pathlib.Path):
    os.truncate(path, path.stat().st_size // 2)


class DamagedCheckpointTest(real_cluster.RealCluster):
    def job(self) -> pathlib.Path:
        path = self.folder / "job.yaml"
        path.write_text(f"""
model: {{family: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 128, vocab: 256}}
data: {{train: [{{path: {self.folder}/text.txt}}]}}
train: {{steps: {STEPS}, sequence: 64, global_batch: 8, micro_batch: 1, schedule: {{warmup_steps: 5}}}}
parallel: {{data: 2, shard: zero1}}
checkpoint: {{every_steps: {EVERY}, keep: {KEEP}}}
restart: {{max_without_progress: 1}}
""")
        return path

    def settle(self, directory: pathlib.Path):
        """Training pauses a while after the controller, for want of answers: until nothing is written any more."""
        seen, since = None, time.monotonic()
        while time.monotonic() < since + QUIET_SECONDS:
            try:
                now = sorted((str(path), path.stat().st_size) for path in directory.rglob("*"))
            except FileNotFoundError:  # renamed meanwhile: something is written
                now = [time.monotonic()]
            if now != seen:
                seen, since = now, time.monotonic()
            time.sleep(0.05)

    def break_and_kill(self, damage, name: str, count: int) -> str:
        """Damages that file of the newest checkpoints, then kills the ranks. Returns what the job is to go on with."""
        self.wait_for(lambda: self.get("job")["state"] == "RUNNING", "its ranks run")
        before = self.get("job")
        goal = before["step"] + (KEEP + 1) * EVERY
        self.wait_for(lambda: self.get("job")["checkpoint_step"] >= goal, f"a checkpoint of step {goal} or later")
        directory = pathlib.Path(before["directory"]) / "checkpoints"
        controller = self.processes("strata-controller")[0]
        os.kill(controller, signal.SIGSTOP)
        try:
            self.settle(directory)
            published = sorted(directory.glob("step-*"))
            self.assertEqual(len(published), KEEP)
            # The one whose commit waits for the controller will count when that wakes up.
            waiting = [path.parent for path in directory.glob(".epoch-*/step-*/manifest.json")]
            for folder in [*waiting, *published[KEEP - count:]]:
                damage(folder / name)
            for trainer in self.processes("strata-trainer"):  # all: none commits what it has written meanwhile
                with contextlib.suppress(ProcessLookupError):  # a peer's death may have ended it
                    os.kill(trainer, signal.SIGKILL)
        finally:
            os.kill(controller, signal.SIGCONT)
        whole = published[:KEEP - count]
        return f"using that of step {int(whole[-1].name[5:])}" if whole else "no older one is left: the job starts anew"

    def damages(self) -> list:
        """Reasons of the ends that damage brought about."""
        return [event["reason"] for event in self.get("job")["events"] if event["cause"] == "checkpoint_damaged"]

    def test_a_job_goes_on_from_the_newest_checkpoint_that_is_whole(self):
        self.strata("run", self.job(), "--dir", self.folder / "reference")
        self.strata("up", "--agents", 2, "--dir", self.cluster)
        self.strata("submit", self.job())
        cases = ((flip, "rank-1.safetensors", 1, r"rank-1\.safetensors: digest "),
                 (truncate, "rank-0.safetensors", 2, r"rank-0\.safetensors: has \d+ bytes, "),
                 (flip, "manifest.json", KEEP, r"manifest\.json: "))
        for damage, name, count, told in cases:
            before = len(self.damages())
            instead = self.break_and_kill(damage, name, count)
            self.wait_for(lambda: self.damages()[before:] and instead in self.damages()[-1], instead)
            for reason in self.damages()[before:]:
                self.assertRegex(reason, r"^damaged checkpoint: .*step-\d+/" + told)
        self.strata("wait", "job", "--for=state=SUCCEEDED")
        ended = self.get("job")
        self.assertEqual([r["step"] for r in self.records(ended["directory"])], list(range(1, STEPS + 1)))
        self.assertEqual(self.numbers(ended["directory"]), self.numbers(self.folder / "reference"))
        checkpoints = pathlib.Path(ended["directory"]) / "checkpoints"
        self.assertEqual(len(list(checkpoints.glob("step-*"))), KEEP)
        self.assertEqual(len(list(checkpoints.glob(".step-*.damaged"))), len(self.damages()))
        described = self.strata("describe", "job", "job").stdout
        self.assertIn("damaged checkpoint: ", described)
        self.assertIn("no older one is left: the job starts anew", described)
        self.down()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
