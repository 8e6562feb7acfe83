"""Every family of models trains the same on one rank and in layouts that cut it, and goes on from the checkpoint of another."""

import json
import os
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_processes

STEPS, TOLERANCE = 6, 1e-5

# Sizes that are multiples of little; tensor 2 divides heads and ffn, and leaves a vocabulary's share padding.
SIZES = {
    "llama": "heads: 6, kv_heads: 2, rope: {scaling: {rope_type: llama3, factor: 4, low_freq_factor: 1, "
             "high_freq_factor: 4, original_max_position_embeddings: 16}}",
    "gpt2": "heads: 6",
    "mistral": "heads: 6, kv_heads: 2, head_size: 10, sliding_window: 9",
    "qwen2": "heads: 6, kv_heads: 2",
    "qwen3": "heads: 6, kv_heads: 2, head_size: 10",
    "gemma2": "heads: 6, kv_heads: 2, head_size: 10, sliding_window: 9, query_scale: 12",
    "gemma3": "heads: 6, kv_heads: 2, head_size: 10, sliding_window: 7",
    "phi3": "heads: 6, kv_heads: 2, sliding_window: 12, rope: {scaling: {rope_type: longrope, short_factor: [1, 1.2, 1.5], "
            "long_factor: [1, 2, 4], original_max_position_embeddings: 16}}",
}
# The same bits as one rank (the sums' order is the same), or its numbers within TOLERANCE.
SAME = {"zero3": "data: 2, shard: zero3", "recompute": "recompute: full"}
# Tied embeddings get their gradient in another order in a pipeline.
PIPELINES = {"pipeline": "pipeline: 2, pipeline_schedule: zero_bubble"}
CLOSE = {"tensor": "tensor: 2", "ring": "context: 2"}
TIED = ("gpt2", "gemma2", "gemma3")


class FamiliesTest(real_processes.RealProcesses):
    def run_job(self, family: str, name: str, parallel: str, *arguments):
        path = self.folder / f"{name}.yaml"
        path.write_text(f"""
model: {{family: {family}, layers: 4, hidden: 36, ffn: 50, vocab: 261, {SIZES[family]}}}
data: {{train: [{{path: {self.folder}/text.txt}}], validation: {{fraction: 0.1}}}}
train: {{steps: {STEPS}, sequence: 32, global_batch: 8, micro_batch: 1, schedule: {{warmup_steps: 3}}}}
parallel: {{virtual_shards: 4, {parallel}}}
evaluate: {{every_steps: 3, sequences: 4}}
checkpoint: {{every_steps: 3}}
""")
        done = subprocess.run(
            [self.folder / "bin" / "strata", "run", path, "--dir", self.folder / name, *arguments], env=self.env,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=real_processes.WAIT_SECONDS)
        self.assertEqual(done.returncode, 0, f"{name}: {done.stderr}")

    def records(self, name: str) -> list:
        lines = (self.folder / name / "metrics.jsonl").read_text().splitlines()
        return [record for record in map(json.loads, lines) if "loss" in record]

    def train(self, family: str, layout: str, parallel: str) -> list:
        name = f"{family}-{layout}"
        self.run_job(family, name, parallel)
        records = self.records(name)
        self.assertEqual(len(records), STEPS, name)
        for record in records:
            for tier in record["memory"].values():
                self.assertEqual(tier["predicted_bytes"], tier["arena_bytes"], name)
        return [(r["step"], r["loss"], r["grad_norm"], r.get("validation_loss")) for r in records]

    def assert_close(self, found: list, expected: list, name: str):
        for a, b in zip(found, expected, strict=True):
            for x, y in zip(a, b, strict=True):
                self.assertTrue(x == y or abs(x - y) <= TOLERANCE * abs(y), f"{name}: {a} is not {b}")

    def check(self, family: str):
        one = self.train(family, "one", "data: 1")
        self.assertLess(one[-1][1], one[0][1], "it learns")
        for layout, parallel in SAME.items():
            self.assertEqual(self.train(family, layout, parallel), one, f"{family} {layout}")
        for layout, parallel in PIPELINES.items():
            found = self.train(family, layout, parallel)
            if family in TIED:
                self.assert_close(found, one, f"{family} {layout}")
            else:
                self.assertEqual(found, one, f"{family} {layout}")
        for layout, parallel in CLOSE.items():
            self.assert_close(self.train(family, layout, parallel), one, f"{family} {layout}")

    def test_a_checkpoint_of_a_tensor_group_goes_on_in_a_pipeline(self):
        self.run_job("qwen3", "tensor", "tensor: 2")
        step = "step-00000003"
        shutil.copytree(self.folder / "tensor" / "checkpoints" / step, self.folder / "pipeline" / "checkpoints" / step)
        self.run_job("qwen3", "pipeline", "pipeline: 2", "--resume")
        whole, rest = self.records("tensor"), self.records("pipeline")
        self.assertEqual([r["step"] for r in rest], [4, 5, 6])
        for a, b in zip(rest, whole[3:], strict=True):
            self.assertLessEqual(abs(a["loss"] - b["loss"]), TOLERANCE * b["loss"])


def add_family(family: str):
    def test(self):
        self.check(family)
    setattr(FamiliesTest, f"test_{family}_trains_alike_in_every_layout", test)


for each in SIZES:
    add_family(each)

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
