"""Trainers with a mistake in their programs refuse them before the first step, and say which instructions do not go
together."""

import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_processes

INSTRUCTION = r"instruction \d+ \([^)]+\)"


class PlantedFaultsTest(real_processes.RealProcesses):
    FAULTS = ["dependency", "late-fetch", "overlap", "reduction"]
    PROGRAMS = [*real_processes.RealProcesses.PROGRAMS,
                *(f"worker/trainer/strata-trainer-fault-{fault}" for fault in FAULTS)]

    def train(self, shard: str) -> tuple:
        """Exit code and standard error of a job of two ranks, and its step records."""
        path, directory = self.folder / "job.yaml", self.folder / "job"
        path.write_text(f"""
model: {{family: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 128, vocab: 256}}
data: {{train: [{{path: {self.folder}/text.txt}}], validation: {{fraction: 0.1}}}}
train: {{steps: 2, sequence: 64, global_batch: 4, micro_batch: 1, schedule: {{warmup_steps: 1}}}}
parallel: {{data: 2, shard: {shard}}}
evaluate: {{every_steps: 1, sequences: 4}}
""")
        ended = subprocess.run([self.folder / "bin" / "strata", "run", path, "--dir", directory], env=self.env,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               cwd=self.folder, timeout=real_processes.WAIT_SECONDS)
        metrics = directory / "metrics.jsonl"
        return ended.returncode, ended.stderr, metrics.read_text() if metrics.exists() else ""

    def refused(self, fault: str, shard: str) -> str:
        binaries = self.folder / "bin"
        shutil.copy(binaries / f"strata-trainer-fault-{fault}", binaries / "strata-trainer")
        code, err, records = self.train(shard)
        self.assertEqual(code, 1, err)
        self.assertEqual(records, "")
        self.assertIn("refused before the first step: program train", err)
        self.assertEqual(self.processes(), [])
        return err

    def test_without_a_fault_the_job_trains(self):
        for shard in ("zero1", "zero3"):
            shutil.rmtree(self.folder / "job", ignore_errors=True)
            code, err, records = self.train(shard)
            self.assertEqual(code, 0, err)
            self.assertEqual(len(records.splitlines()), 2)

    def test_a_dependency_that_is_left_out_is_a_race_with_the_gather(self):
        err = self.refused("dependency", "zero3")
        self.assertRegex(err, rf"{INSTRUCTION}.* not ordered after instruction \d+ \(gather [^)]+\)")

    def test_a_gather_behind_its_use_is_late(self):
        err = self.refused("late-fetch", "zero3")
        self.assertRegex(err, rf"{INSTRUCTION}.*its first writer is instruction \d+ \(gather [^)]+\)")

    def test_a_reduction_that_is_left_out_leaves_a_partial_sum(self):
        err = self.refused("reduction", "zero1")
        self.assertRegex(err, rf"{INSTRUCTION}.* must be complete but is a partial sum over data since {INSTRUCTION}")

    def test_slots_on_the_same_bytes_are_overwritten(self):
        err = self.refused("overlap", "zero1")
        self.assertRegex(err, rf"{INSTRUCTION}.*{INSTRUCTION}")
        self.assertTrue(re.search("overwritten|same bytes|race", err), err)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
