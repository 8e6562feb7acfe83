"""Jobs of `resources.device: gpu` by real processes on the stand-in of CUDA: its checker looks at every access of every
kernel and copy of whole trainings, checkpoints and tiers included, and fails a job where it finds something. Losses are
the CPU's."""

import json
import os
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_processes

STEPS = 4
SSD = ["memory.host=400MiB", "memory.ssd=[{path: ssd, size: 64MiB}]", "memory.place.optimizer=ssd"]


class GpuJobs(real_processes.RealProcesses):
    PROGRAMS = [*real_processes.RealProcesses.PROGRAMS, "worker/trainer/strata-trainer-standin"]

    def setUp(self):
        super().setUp()
        self.env["STRATA_GPU_STANDIN"] = "1"
        (self.folder / "job.yaml").write_text(f"""
model: {{family: llama, layers: 2, hidden: 32, heads: 4, kv_heads: 2, ffn: 64, vocab: 256}}
data: {{train: [{{path: {self.folder}/text.txt}}], validation: {{fraction: 0.1}}}}
train: {{sequence: 16, global_batch: 2, micro_batch: 1, steps: {STEPS}, seed: 1,
        schedule: {{name: constant, warmup_steps: 1}}}}
evaluate: {{every_steps: {STEPS}, sequences: 1}}
checkpoint: {{every_steps: 2, keep: 2}}
""")

    def run_job(self, device, *sets, folder=None, more=()):
        """The finished process and its records."""
        self.metrics = self.folder / "metrics.jsonl"
        self.metrics.unlink(missing_ok=True)
        command = [self.folder / "bin/strata", "run", "job.yaml", "--dir", folder or f"of-{device}", "--metrics",
                   self.metrics, *more, "--set", f"resources.device={device}"]
        for value in sets:
            command += ["--set", value]
        done = subprocess.run(command, cwd=self.folder, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=real_processes.WAIT_SECONDS)
        records = [json.loads(line) for line in self.metrics.read_text().splitlines()] if self.metrics.exists() else []
        return done, records

    def expect_cpu_losses(self, tolerance, *sets):
        results = {}
        for device in ("gpu", "cpu"):
            done, records = self.run_job(device, *sets)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertNotIn("race", done.stdout)
            results[device] = [record["loss"] for record in records] + [records[-1]["validation_loss"]]
            shutil.rmtree(self.folder / f"of-{device}")
        self.assertEqual(len(results["gpu"]), STEPS + 1)
        for ours, theirs in zip(results["gpu"], results["cpu"]):
            self.assertLess(abs(ours - theirs), tolerance * theirs)


class GpuStandinTest(GpuJobs):
    def test_a_training_in_f32_has_the_cpus_losses_and_says_what_it_ran_on(self):
        self.expect_cpu_losses(1e-6, "model.family=gpt2", "model.kv_heads=4", "train.global_batch=4")
        done, records = self.run_job("gpu", "train.steps=1", folder="again")
        self.assertIn("computes on Strata's stand-in, which interprets kernels on the CPU", done.stdout)
        tiers = records[-1]["memory"]
        self.assertGreater(tiers["device"]["predicted_bytes"], 0)

    def test_a_training_in_bf16_with_split_masters_and_moments_of_8_bits_is_near_the_cpus(self):
        self.expect_cpu_losses(1e-3, "train.precision=bf16", "train.optimizer.master=split", "train.optimizer.state=8bit")

    def test_states_on_ssd_and_streamed_layers_have_the_cpus_losses(self):
        self.expect_cpu_losses(1e-6, *SSD, "memory.place.parameters=host", "memory.stream.resident=2", "model.layers=4")

    def test_a_checkpoint_of_the_cpu_goes_on_on_the_device_and_back(self):
        whole = self.run_job("cpu", folder="whole")[1]
        done, _ = self.run_job("cpu", "train.steps=2", folder="turns")
        self.assertEqual(done.returncode, 0, done.stdout)
        for device, steps in (("gpu", 3), ("cpu", 4)):
            done, records = self.run_job(device, f"train.steps={steps}", "checkpoint.every_steps=1", folder="turns",
                                         more=["--resume"])
            self.assertEqual(done.returncode, 0, done.stdout)
        self.assertLess(abs(records[-1]["loss"] - whole[-1]["loss"]), 1e-6 * whole[-1]["loss"])

    def test_what_is_missing_is_told(self):
        del self.env["STRATA_GPU_STANDIN"]
        done, _ = self.run_job("gpu")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("strata-trainer-gpu: No such file or directory — jobs on GPUs need it", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
