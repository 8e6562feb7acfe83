"""Jobs in bf16 and f16, with masters, moments and gradients in other types: alike in every layout, and after a resume."""

import json
import os
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_processes

STEPS = 12
# A loss of 16-bit numbers in another order of sums inside a layer.
TOLERANCE = 2e-2


class PrecisionTest(real_processes.RealProcesses):
    def run_job(self, name: str, train: str, parallel: str = "data: 1", *arguments) -> str:
        path = self.folder / f"{name}.yaml"
        path.write_text(f"""
model: {{family: llama, layers: 4, hidden: 48, heads: 4, kv_heads: 2, ffn: 96, vocab: 256, tied_embeddings: false}}
data: {{train: [{{path: {self.folder}/text.txt}}], validation: {{fraction: 0.1}}}}
train: {{steps: {STEPS}, sequence: 32, global_batch: 8, micro_batch: 1, schedule: {{warmup_steps: 3}}, {train}}}
parallel: {{virtual_shards: 4, {parallel}}}
evaluate: {{every_steps: 6, sequences: 5}}
checkpoint: {{every_steps: 6, keep: 3}}
""")
        done = subprocess.run(
            [self.folder / "bin" / "strata", "run", path, "--dir", self.folder / name, *arguments], env=self.env,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=real_processes.WAIT_SECONDS)
        self.assertEqual(done.returncode, 0, f"{name}: {done.stderr}")
        return done.stderr

    def records(self, name: str) -> list:
        lines = (self.folder / name / "metrics.jsonl").read_text().splitlines()
        records = [record for record in map(json.loads, lines) if "loss" in record]
        for record in records:
            for tier in record["memory"].values():
                self.assertEqual(tier["arena_bytes"], tier["predicted_bytes"], name)
        return records

    def train(self, name: str, train: str, parallel: str = "data: 1", *arguments) -> list:
        self.run_job(name, train, parallel, *arguments)
        return [(r["step"], r["loss"], r["grad_norm"], r.get("validation_loss")) for r in self.records(name)]

    def resume(self, name: str, source: str, train: str, parallel: str = "data: 1") -> tuple[list, str]:
        """Goes on from the checkpoint of step 6 of another job: the steps after it, and what was told."""
        step = "step-00000006"
        shutil.copytree(self.folder / source / "checkpoints" / step, self.folder / name / "checkpoints" / step)
        told = self.run_job(name, train, parallel, "--resume")
        return [(r["step"], r["loss"], r["grad_norm"], r.get("validation_loss")) for r in self.records(name)], told

    def assert_close(self, found: list, expected: list, tolerance: float = TOLERANCE):
        self.assertEqual([r[0] for r in found], [r[0] for r in expected])
        for (_, *a), (_, *b) in zip(found, expected):
            for x, y in zip(a, b):
                self.assertTrue(x == y or abs(x - y) <= tolerance * abs(y), (found, expected))

    def arena(self, name: str) -> int:
        return self.records(name)[0]["memory"]["host"]["arena_bytes"]

    def test_bf16_has_the_bits_of_one_rank_however_data_and_layers_are_divided(self):
        one = self.train("one", "precision: bf16")
        self.assertLess(one[-1][1], one[0][1])
        self.assert_close(one, self.train("f32", "precision: f32"))
        for name, parallel in {"zero1": "data: 2, shard: zero1", "zero2": "data: 2, shard: zero2",
                               "zero3": "data: 4, shard: zero3", "hybrid": "data: 4, shard: zero3, shard_group: 2",
                               "stages": "pipeline: 2, pipeline_schedule: zero_bubble",
                               "more": "pipeline: 2, data: 2, shard: zero1"}.items():
            self.assertEqual(self.train(name, "precision: bf16", parallel), one, name)
        for name, parallel in {"tensor": "tensor: 2", "ring": "context: 2",
                               "both": "tensor: 2, data: 2, shard: zero3"}.items():
            self.assert_close(self.train(name, "precision: bf16", parallel), one)

    def test_both_masters_have_the_same_bits_and_split_ones_are_smaller(self):
        f32 = self.train("f32", "precision: bf16, optimizer: {master: f32}")
        self.assertEqual(self.train("split", "precision: bf16, optimizer: {master: split}", "data: 2, shard: zero1"), f32)
        self.assertEqual(self.train("one", "precision: bf16, optimizer: {master: split}"), f32)
        self.assertLess(self.arena("one"), self.arena("f32"))

    def test_moments_in_8_bits_have_the_same_blocks_in_every_layout_of_data(self):
        settings = "precision: bf16, optimizer: {master: split, state: 8bit}"
        one = self.train("one", settings)
        for name, parallel in {"zero1": "data: 2, shard: zero1", "zero3": "data: 4, shard: zero3",
                               "stages": "pipeline: 2"}.items():
            self.assertEqual(self.train(name, settings, parallel), one, name)
        self.assert_close(one, self.train("f32", "precision: bf16"))
        self.assert_close(self.train("of-f32", "optimizer: {state: 8bit}", "data: 2, shard: zero2"),
                          self.train("plain", "precision: f32"))

    def test_gradients_in_bf16_give_the_numbers_of_f32(self):
        one = self.train("one", "precision: bf16")
        for name, parallel in {"same": "data: 1", "zero1": "data: 2, shard: zero1", "zero3": "data: 4, shard: zero3",
                               "stages": "pipeline: 2, data: 2"}.items():
            found = self.train(name, "precision: bf16, optimizer: {gradient: bf16, state: bf16}", parallel)
            self.assert_close(found, one)

    def test_a_resumed_job_of_16_bits_has_the_bits_of_one_that_was_not_interrupted(self):
        for name, settings in {"split": "precision: bf16, optimizer: {master: split, state: 8bit}",
                               "f32": "precision: bf16, optimizer: {state: bf16, gradient: bf16}"}.items():
            whole = self.train(name, settings, "data: 2, shard: zero1")
            found, told = self.resume(f"{name}-resumed", name, settings, "data: 2, shard: zero1")
            self.assertEqual(found, whole[6:])
            self.assertNotIn("changed since the checkpoint", told)
        found, _ = self.resume("elsewhere", "split", "precision: bf16, optimizer: {master: split, state: 8bit}",
                               "data: 4, shard: zero3")
        self.assertEqual(found, self.train("split-whole", "precision: bf16, optimizer: {master: split, state: 8bit}")[6:])

    def test_a_checkpoint_of_any_precision_goes_on_in_any_other(self):
        whole = self.train("f32", "precision: f32")
        found, told = self.resume("bf16", "f32", "precision: bf16, optimizer: {state: 8bit}", "data: 2, shard: zero3")
        self.assertIn("train.precision: PRECISION_BF16, the checkpoint's PRECISION_F32", told)
        self.assertIn("train.optimizer.state", told)
        self.assert_close(found, whole[6:])
        self.train("narrow", "precision: bf16, optimizer: {master: split}")
        found, _ = self.resume("wide", "narrow", "precision: f32")
        self.assert_close(found, whole[6:])

    def test_f16_scales_its_losses_and_remembers_how(self):
        one = self.train("one", "precision: f16")
        self.assert_close(one, self.train("f32", "precision: f32"))
        scales = [record["loss_scale"] for record in self.records("one")]
        self.assertEqual(scales[0], 65536)
        self.assertTrue(all(b in (a, a / 2) for a, b in zip(scales, scales[1:])), scales)
        self.assertNotIn("loss_scale", self.records("f32")[0])
        self.assertEqual(self.train("zero1", "precision: f16", "data: 2, shard: zero1"), one)
        found, _ = self.resume("resumed", "one", "precision: f16")
        self.assertEqual(found, one[6:])
        self.assertEqual([record["loss_scale"] for record in self.records("resumed")], scales[6:])

    def test_sgd_trains_and_goes_on(self):
        settings = "optimizer: {name: sgd, learning_rate: 0.3}"
        whole = self.train("sgd", settings)
        self.assertLess(whole[-1][1], whole[0][1])
        self.assertEqual(self.train("zero3", settings, "data: 2, shard: zero3"), whole)
        found, _ = self.resume("resumed", "sgd", settings)
        self.assertEqual(found, whole[6:])
        self.assertLess(self.arena("sgd"), (self.train("adamw", "precision: f32"), self.arena("adamw"))[1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
