"""A job on a cluster of real processes that begins with another job's weights, computes in bf16 and loses its trainers in
the middle: it goes on bit by bit as an undisturbed run."""

import contextlib
import os
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_cluster

FIRST_STEPS, STEPS, EVERY = 20, 1500, 20


class StartFromTest(real_cluster.RealCluster):
    def job(self, name: str, train: str) -> pathlib.Path:
        path = self.folder / f"{name}.yaml"
        path.write_text(f"""
model: {{family: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 128, vocab: 256}}
data: {{train: [{{path: {self.folder}/text.txt}}]}}
train: {{sequence: 64, global_batch: 8, micro_batch: 1, schedule: {{name: constant, warmup_steps: 5}}, {train}}}
parallel: {{data: 2, shard: zero1, virtual_shards: 4}}
checkpoint: {{every_steps: {EVERY}}}
""")
        return path

    def kill_a_trainer(self):
        """In the middle of the steps after a checkpoint."""
        goal = self.get("second")["checkpoint_step"] + EVERY
        self.wait_for(lambda: self.get("second")["checkpoint_step"] >= goal, f"a checkpoint of step {goal} or later")
        trainers = self.processes("strata-trainer")
        self.assertTrue(trainers)
        with contextlib.suppress(ProcessLookupError):
            os.kill(trainers[-1], signal.SIGKILL)

    def test_a_bf16_job_from_another_jobs_checkpoint_survives_a_killed_trainer_with_the_same_bits(self):
        self.strata("run", self.job("first", f"steps: {FIRST_STEPS}"), "--dir", self.folder / "first")
        path = self.job("second", f"steps: {STEPS}, start_from: {self.folder}/first/checkpoints, precision: bf16, "
                                  "optimizer: {master: split, state: 8bit}")
        self.strata("up", "--agents", "2", "--dir", self.cluster)
        self.strata("submit", path)
        self.kill_a_trainer()
        self.strata("wait", "second", "--for=state=SUCCEEDED")
        job = self.get("second")
        self.assertEqual((job["step"], job["attempt"]), (STEPS, 2))
        found = self.numbers(job["directory"])
        self.assertEqual([step for step, *_ in found], list(range(FIRST_STEPS + 1, STEPS + 1)))
        self.assertEqual({record["attempt"] for record in self.records(job["directory"])}, {1, 2})
        self.strata("run", path, "--dir", self.folder / "undisturbed")
        self.assertEqual(found, self.numbers(self.folder / "undisturbed"))
        self.down()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
