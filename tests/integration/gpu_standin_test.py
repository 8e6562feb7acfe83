"""Jobs of `resources.device: gpu` by real processes on the stand-in of CUDA: its checker looks at every access of every
kernel and copy of whole trainings, checkpoints and tiers included, and fails a job where it finds something. Losses are
the CPU's.

On a machine with a GPU the same jobs run there: gpu_standin_test.py PROGRAMS, strata-trainer-gpu among them (tests/gpu/run)."""

import json
import os
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_processes

STEPS = 4
REAL = any(path.endswith("strata-trainer-gpu") for path in sys.argv[1:])
# The stand-in's products are added up as the CPU's are, a GPU's otherwise.
ORDER_OF_SUMS = 10 if REAL else 1
SSD = ["memory.host=400MiB", "memory.ssd=[{path: ssd, size: 64MiB}]", "memory.place.optimizer=ssd"]


class GpuJobs(real_processes.RealProcesses):
    PROGRAMS = [*real_processes.RealProcesses.PROGRAMS, "worker/trainer/strata-trainer-standin"]

    def setUp(self):
        super().setUp()
        if not REAL:
            self.env["STRATA_GPU_STANDIN"] = "1"
        self.write_job("{family: llama, layers: 2, hidden: 32, heads: 4, kv_heads: 2, ffn: 64, vocab: 256}")

    def write_job(self, model):
        (self.folder / "job.yaml").write_text(f"""
model: {model}
data: {{train: [{{path: {self.folder}/text.txt}}], validation: {{fraction: 0.1}}}}
train: {{sequence: 16, global_batch: 2, micro_batch: 1, steps: {STEPS}, seed: 1,
        schedule: {{name: constant, warmup_steps: 1}}}}
evaluate: {{every_steps: {STEPS}, sequences: 1}}
checkpoint: {{every_steps: 2, keep: 2}}
""")

    def strata(self, *arguments):
        """The finished process, with all that it printed."""
        return subprocess.run([self.folder / "bin/strata", *arguments], cwd=self.folder, env=self.env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=real_processes.WAIT_SECONDS)

    def run_job(self, device, *sets, folder=None, more=()):
        """The finished process and its records."""
        self.metrics = self.folder / "metrics.jsonl"
        self.metrics.unlink(missing_ok=True)
        command = ["run", "job.yaml", "--dir", folder or f"of-{device}", "--metrics", self.metrics, *more,
                   "--set", f"resources.device={device}"]
        for value in sets:
            command += ["--set", value]
        done = self.strata(*command)
        records = [json.loads(line) for line in self.metrics.read_text().splitlines()] if self.metrics.exists() else []
        return done, records

    def expect_cpu_losses(self, tolerance, *sets):
        """Validation included; of f16 with the same scales."""
        results, scales = {}, {}
        for device in ("gpu", "cpu"):
            done, records = self.run_job(device, *sets)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertNotIn("race", done.stdout)
            results[device] = [record["loss"] for record in records] + [records[-1]["validation_loss"]]
            scales[device] = [record.get("loss_scale") for record in records]
            shutil.rmtree(self.folder / f"of-{device}")
        self.assertEqual(len(results["gpu"]), STEPS + 1)
        self.assertEqual(scales["gpu"], scales["cpu"])
        for ours, theirs in zip(results["gpu"], results["cpu"]):
            self.assertLess(abs(ours - theirs), ORDER_OF_SUMS * tolerance * theirs)


class GpuStandinTest(GpuJobs):
    def test_a_training_in_f32_has_the_cpus_losses_and_says_what_it_ran_on(self):
        self.expect_cpu_losses(1e-6, "model.family=gpt2", "model.kv_heads=4", "train.global_batch=4")
        done, records = self.run_job("gpu", "train.steps=1", folder="again")
        self.assertIn("computes on NVIDIA" if REAL else "computes on Strata's stand-in, which interprets kernels on the CPU",
                      done.stdout)
        device = records[-1]["memory"]["device"]
        self.assertGreater(device["predicted_bytes"], 0)
        taken = device["measured_bytes"] - device["overhead_bytes"]  # on a GPU: also by its graphs, and in pages
        self.assertGreaterEqual(taken, device["arena_bytes"])
        self.assertLessEqual(taken, device["arena_bytes"] + ((64 << 20) if REAL else 4096))

    def test_a_training_in_bf16_with_split_masters_and_moments_of_8_bits_is_near_the_cpus(self):
        self.expect_cpu_losses(1e-3, "train.precision=bf16", "train.optimizer.master=split", "train.optimizer.state=8bit")

    def test_a_training_in_f16_scales_its_losses_as_the_cpu_does(self):
        self.expect_cpu_losses(1e-4, "train.precision=f16")

    def test_adapters_beside_a_quantised_base_have_the_cpus_losses(self):
        self.run_job("cpu", "train.steps=2", folder="base")
        self.assertEqual(self.strata("export", "base/checkpoints", "-o", "model").returncode, 0)
        self.write_job("{from: model}")
        adapters = ["train.method=qlora", "train.lora={rank: 4, alpha: 8}", "train.optimizer={learning_rate: 0.01}"]
        self.expect_cpu_losses(1e-6, *adapters)
        self.expect_cpu_losses(1e-4, *adapters, "train.quantize={type: int8}", "train.precision=f16")

    def infer(self, command, device):
        """What `eval` or `generate` says in JSON."""
        done = self.strata(*command, "--from", "of-cpu/checkpoints", "--device", device, "-o", "json")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual("computes on Strata's stand-in" in done.stdout, device == "gpu" and not REAL, done.stdout)
        return json.loads(done.stdout[done.stdout.index("{"):])

    def check_inference(self, *sets):
        self.assertEqual(self.run_job("cpu", "train.steps=2", *sets)[0].returncode, 0)
        (self.folder / "few.txt").write_text("every stone under the light of the morning river")
        for precision, tolerance in (("f32", 1e-6), ("f16", 1e-3)):
            losses = [self.infer(["eval", "--data", "few.txt", "--sequence", "12", "--precision", precision], device)
                      for device in ("gpu", "cpu")]
            self.assertEqual(losses[0]["tokens"], losses[1]["tokens"])
            apart = abs(losses[0]["loss"] - losses[1]["loss"])
            self.assertLess(apart, ORDER_OF_SUMS * tolerance * losses[1]["loss"])
        told = [self.infer(["generate", "--prompt", "water under", "--tokens", "5", "--temperature", "0"], device)
                for device in ("gpu", "cpu")]
        self.assertEqual(len(told[0]["text"]), 5)
        self.assertEqual(*told)
        shutil.rmtree(self.folder / "of-cpu")

    def test_a_checkpoint_is_evaluated_and_goes_on_from_a_prompt_as_on_the_cpu(self):
        self.check_inference()
        self.check_inference("model.family=gpt2", "model.kv_heads=4")  # learned positions

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
        self.assertLess(abs(records[-1]["loss"] - whole[-1]["loss"]), ORDER_OF_SUMS * 1e-6 * whole[-1]["loss"])

    def test_a_kind_is_that_of_the_device(self):
        done, records = self.run_job("t4", "train.steps=1")  # which Strata does not run on
        if REAL:
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("resources.device: t4: the device of rank 0 is of kind", done.stdout)
            return
        self.assertEqual((done.returncode, len(records)), (0, 1), done.stdout)  # the stand-in is any
        manifest = json.loads((self.folder / "of-t4/checkpoints/step-00000001/manifest.json").read_text())
        self.assertEqual(manifest["info"]["device_kind"], "t4")

    @unittest.skipIf(REAL, "here nothing is missing")
    def test_what_is_missing_is_told(self):
        del self.env["STRATA_GPU_STANDIN"]
        done, _ = self.run_job("gpu")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("strata-trainer-gpu: No such file or directory — jobs on GPUs need it", done.stdout)
        self.run_job("cpu", "train.steps=1")
        command = ["generate", "--from", "of-cpu/checkpoints", "--prompt", "water", "--device", "gpu"]
        done = self.strata(*command)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("strata-trainer-gpu: No such file or directory", done.stdout)
        done = self.strata(*command, "--ranks", "2")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("--device: gpu with 2 ranks is not supported yet", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
