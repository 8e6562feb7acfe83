"""Jobs of several GPU ranks, a process each, on the stand-ins of CUDA and NCCL: in every layout the losses are those of one
rank on the CPU, and who loses a rank ends in time and goes on from the checkpoint."""

import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gpu_standin_test
import real_processes

STEPS = 2
SMALL = [f"train.steps={STEPS}", f"evaluate.every_steps={STEPS}", "train.sequence=8", f"checkpoint.every_steps={STEPS}"]
END_SECONDS = 30  # of a run that has lost a rank


class GpuRanksTest(gpu_standin_test.GpuJobs):
    cpu_losses: dict = {}  # of one rank, by what was set

    def losses(self, device, *sets):
        done, records = self.run_job(device, *SMALL, *sets)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("stand-in of CUDA:", done.stdout)
        shutil.rmtree(self.folder / f"of-{device}")
        found = [record["loss"] for record in records] + [records[-1]["validation_loss"]]
        self.assertEqual(len(found), STEPS + 1)
        return found

    def expect_losses_of_one_cpu_rank(self, *layouts, sets=()):
        if sets not in self.cpu_losses:
            self.cpu_losses[sets] = self.losses("cpu", *sets)
        for layout in layouts:
            with self.subTest(layout):
                found = self.losses("gpu", *sets, *(f"parallel.{degree}" for degree in layout.split()))
                for ours, theirs in zip(found, self.cpu_losses[sets]):
                    self.assertLess(abs(ours - theirs), 1e-6 * theirs)

    def test_data(self):
        self.expect_losses_of_one_cpu_rank("data=2", "data=2 shard=zero2", "data=2 shard=zero3")

    def test_tensor_and_with_data(self):
        self.expect_losses_of_one_cpu_rank("tensor=2", "tensor=2 data=2 shard=zero1")

    def test_context(self):
        self.expect_losses_of_one_cpu_rank("context=2")

    # The last's two chunks of a rank send both ways.
    def test_pipeline(self):
        self.expect_losses_of_one_cpu_rank("pipeline=2", "pipeline=2 pipeline_schedule=zbv",
                                           sets=("model.layers=4", "train.global_batch=4"))

    def test_a_run_whose_rank_is_killed_ends_in_time_and_is_resumed(self):
        command = [self.folder / "bin/strata", "run", "job.yaml", "--dir", "killed", "--set", "resources.device=gpu", "--set",
                   "parallel.data=2", "--set", "checkpoint.every_steps=1", "--set", "train.steps=1000", "--set",
                   "evaluate.every_steps=0"]
        run = subprocess.Popen(command, cwd=self.folder, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True)
        self.wait_for(lambda: list((self.folder / "killed").glob("**/step-*1")), "a checkpoint")
        os.kill(self.processes("strata-trainer-standin")[1], signal.SIGKILL)
        begin = time.monotonic()
        text, _ = run.communicate(timeout=END_SECONDS)
        self.assertEqual(run.returncode, 1, text)
        self.assertLess(time.monotonic() - begin, END_SECONDS)
        self.assertIn("was killed", text)
        done = subprocess.run([*command, "--resume", "--set", "train.steps=6"], cwd=self.folder, env=self.env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=real_processes.WAIT_SECONDS)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
