"""Real processes of `strata run` over tensor and context groups and pipelines: one rank's numbers, and checkpoints free of the layout."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_processes

STEPS = 12


class LayoutsTest(real_processes.RealProcesses):
    def job(self, parallel: str, checkpoints: pathlib.Path | None = None) -> str:
        folder = f", directory: {checkpoints}" if checkpoints else ""
        return f"""
model: {{family: llama, layers: 4, hidden: 48, heads: 4, kv_heads: 2, ffn: 96, vocab: 256, tied_embeddings: false}}
data: {{train: [{{path: {self.folder}/text.txt}}], validation: {{fraction: 0.1}}}}
train: {{steps: {STEPS}, sequence: 32, global_batch: 8, micro_batch: 1, schedule: {{warmup_steps: 3}}}}
parallel: {{virtual_shards: 4, {parallel}}}
evaluate: {{every_steps: 6, sequences: 5}}
checkpoint: {{every_steps: 6, keep: 3{folder}}}
"""

    def train(self, name: str, parallel: str, *arguments, checkpoints: pathlib.Path | None = None) -> list:
        """Loss, gradient norm and validation loss of each step."""
        path = self.folder / f"{name}.yaml"
        path.write_text(self.job(parallel, checkpoints))
        done = subprocess.run([self.folder / "bin" / "strata", "run", path, "--dir", self.folder / name, *arguments],
                              env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=real_processes.WAIT_SECONDS)
        self.assertEqual(done.returncode, 0, f"{name}: {done.stderr}")
        lines = (self.folder / name / "metrics.jsonl").read_text().splitlines()
        steps = [record for record in map(json.loads, lines) if "loss" in record]
        for record in steps:
            for tier in record["memory"].values():
                self.assertEqual(tier["arena_bytes"], tier["predicted_bytes"], name)
                seen = tier["measured_bytes"] - tier["overhead_bytes"]  # the operating system's high-water mark
                self.assertLessEqual(abs(seen - tier["predicted_bytes"]),
                                     0.03 * tier["predicted_bytes"] + (16 << 20), (name, tier))
        return [(r["step"], r["loss"], r["grad_norm"], r.get("validation_loss")) for r in steps]

    def assert_close(self, found: list, expected: list):
        self.assertEqual([r[0] for r in found], [r[0] for r in expected])
        for (_, *a), (_, *b) in zip(found, expected):
            for x, y in zip(a, b):
                self.assertTrue(x == y or abs(x - y) <= 1e-5 * abs(y), (found, expected))

    def test_every_pipeline_schedule_gives_the_bits_of_one_rank(self):
        one = self.train("one", "data: 1")
        for schedule, more in {"gpipe": "", "1f1b": ", data: 2, shard: zero1", "interleaved": ", virtual_stages: 2",
                               "zero_bubble": ", recompute: full", "zbv": ", data: 2, shard: zero3"}.items():
            found = self.train(schedule, f"pipeline: 2, pipeline_schedule: {schedule}{more}")
            self.assertEqual(found, one, schedule)

    def test_a_tensor_group_gives_the_numbers_of_one_rank_and_the_same_bits_however_data_is_divided(self):
        one = self.train("one", "data: 1")
        two = self.train("two", "tensor: 2")
        self.assert_close(two, one)
        self.assertEqual(self.train("four", "tensor: 2, data: 2, shard: zero1"), two)
        self.assertEqual(self.train("eight", "tensor: 2, pipeline: 2, data: 2, shard: zero3"), two)

    def test_ranks_that_share_key_and_value_heads_give_the_numbers_of_one_rank(self):
        one = self.train("one", "data: 1")
        four = self.train("four", "tensor: 4")
        self.assert_close(four, one)
        self.assertEqual(self.train("eight", "tensor: 4, data: 2, shard: zero1"), four)

    def test_a_context_group_gives_the_numbers_of_one_rank_by_every_method_and_the_same_bits_however_data_is_divided(self):
        one = self.train("one", "data: 1")
        for method, more in {"ring": "data: 2, shard: zero3", "all_gather": "pipeline: 2",
                             "all_to_all": "tensor: 2"}.items():
            alone = self.train(method, f"context: 2, context_method: {method}")
            self.assert_close(alone, one)
            more_ranks = self.train(f"{method}-more", f"context: 2, context_method: {method}, {more}")
            self.assert_close(more_ranks, one)
            if "tensor" not in more:
                self.assertEqual(more_ranks, alone, method)
        self.assert_close(self.train("four", "context: 4"), one)

    def test_a_checkpoint_of_any_layout_goes_on_in_any_other(self):
        saved = self.folder / "saved"
        whole = self.train("whole", "tensor: 2, pipeline: 2, pipeline_schedule: zbv", checkpoints=saved)
        step = next(saved.glob("step-*06"))
        for name, parallel in {"one": "data: 1", "stages": "pipeline: 4, pipeline_schedule: gpipe",
                               "parts": "context: 2, data: 2, shard: zero3",
                               "heads": "tensor: 4, data: 2, shard: zero2"}.items():
            copy = self.folder / f"{name}-checkpoints"
            shutil.copytree(step, copy / step.name)
            found = self.train(name, parallel, "--resume", checkpoints=copy)
            self.assert_close(found, whole[6:])

    def use(self, *arguments) -> str:
        done = subprocess.run([self.folder / "bin" / "strata", *arguments], env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=real_processes.WAIT_SECONDS)
        self.assertEqual(done.returncode, 0, f"{arguments}: {done.stderr}")
        return done.stdout

    def test_eval_and_generate_read_the_checkpoint_of_any_layout(self):
        held_out = self.folder / "held_out.txt"
        held_out.write_text((self.folder / "text.txt").read_text()[-2000:])
        losses, texts = {}, {}
        for name, parallel in {"one": "data: 1", "tensor": "tensor: 2, data: 2, shard: zero3",
                               "pipeline": "pipeline: 2, pipeline_schedule: zbv", "context": "context: 2"}.items():
            saved = self.folder / f"{name}-checkpoints"
            self.train(name, parallel, checkpoints=saved)
            told = self.use("eval", "--from", saved, "--data", held_out, "--sequence", "32", "-o", "json")
            losses[name] = json.loads(told)["loss"]
            texts[name] = self.use("generate", "--from", saved, "--prompt", "river", "--tokens", "8", "--temperature", "0")
        for name, loss in losses.items():
            self.assertLessEqual(abs(loss - losses["one"]), 1e-5 * losses["one"], losses)
            self.assertTrue(texts[name].strip(), name)
        self.assertEqual(losses["pipeline"], losses["one"])  # the same bits of weights
        self.assertEqual(texts["pipeline"], texts["one"])

    def test_a_pipeline_takes_a_layer_through_all_micro_batches_with_the_bits_of_one_rank(self):
        one = self.train("one", "data: 1")
        self.assertEqual(self.train("layers", "pipeline: 2, micro_order: layer_first"), one)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
