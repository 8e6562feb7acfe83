"""Real processes of `strata run` on packed documents and masked tokens: trained tokens are counted, attention stays inside documents, layouts agree."""

import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_processes

VOCAB, SEQUENCE, BATCH = 256, 32, 8


def llmq(path: pathlib.Path, documents: list, trained: list):
    """An llmq v2 file with a mask, and where its documents end beside it."""
    tokens = [token for document in documents for token in document]
    head = b"BIN.TOK\n" + struct.pack("<5i", 2, 4, len(tokens), VOCAB, 1)
    mask = bytearray((len(tokens) + 7) // 8)
    for i, is_target in enumerate(trained):
        mask[i // 8] |= is_target << (i % 8)
    path.write_bytes(head.ljust(1024, b"\0") + struct.pack(f"<{len(tokens)}i", *tokens) + mask)
    ends = [sum(map(len, documents[: i + 1])) for i in range(len(documents))]
    path.with_name(path.name + ".documents").write_bytes(
        b"STRDOCS\n" + struct.pack("<IIqq", 1, 0, len(ends), len(tokens)) + struct.pack(f"<{len(ends)}q", *ends))


class PackingTest(real_processes.RealProcesses):
    def setUp(self):
        super().setUp()
        draw = random.Random(1)
        lengths = [draw.choice([1, 2, 5, 12, 20, 33, 70]) for _ in range(300)]
        self.documents = [[(start + 3 * i) % VOCAB for i in range(length)]
                          for length in lengths for start in [draw.randrange(VOCAB)]]
        count = sum(lengths)
        self.trained = [draw.random() < 0.7 for _ in range(count)]
        llmq(self.folder / "some.bin", self.documents, self.trained)
        llmq(self.folder / "all.bin", self.documents, [True] * count)
        llmq(self.folder / "none.bin", self.documents, [False] * count)

    def run_job(self, name: str, data: str, parallel: str = "data: 1", *arguments, packing: str = "true"):
        path = self.folder / f"{name}.yaml"
        path.write_text(f"""
model: {{family: llama, layers: 2, hidden: 32, heads: 4, kv_heads: 2, ffn: 48, vocab: {VOCAB}, tied_embeddings: false}}
data: {{train: [{{path: {self.folder}/{data}}}], validation: {{fraction: 0.1}}, packing: {packing}}}
train: {{steps: 6, sequence: {SEQUENCE}, global_batch: {BATCH}, micro_batch: 1, schedule: {{warmup_steps: 3}}}}
parallel: {{virtual_shards: 4, {parallel}}}
evaluate: {{every_steps: 3, sequences: 5}}
checkpoint: {{every_steps: 3, directory: {self.folder}/{name}/checkpoints}}
""")
        return subprocess.run([self.folder / "bin" / "strata", "run", path, "--dir", self.folder / name, *arguments],
                              env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=real_processes.WAIT_SECONDS)

    def train(self, name: str, *arguments, **more) -> list:
        done = self.run_job(name, *arguments, **more)
        self.assertEqual(done.returncode, 0, f"{name}: {done.stderr}")
        lines = (self.folder / name / "metrics.jsonl").read_text().splitlines()
        return [record for record in map(json.loads, lines) if "loss" in record]

    def numbers(self, records: list) -> list:
        return [(r["step"], r["loss"], r["grad_norm"], r["tokens"], r.get("validation_loss")) for r in records]

    def assert_close(self, found: list, expected: list):
        for a, b in zip(self.numbers(found), self.numbers(expected), strict=True):
            for x, y in zip(a, b):
                self.assertTrue(x == y or abs(x - y) <= 1e-5 * abs(y), (found, expected))

    def test_layouts_give_the_bits_of_one_rank_or_its_numbers(self):
        one = self.train("one", "some.bin")
        for name, parallel in {"data": "data: 2", "zero3": "data: 2, shard: zero3, recompute: full",
                               "pipeline": "pipeline: 2, pipeline_schedule: zero_bubble"}.items():
            self.assertEqual(self.numbers(self.train(name, "some.bin", parallel)), self.numbers(one), name)
        for name, parallel in {"tensor": "tensor: 2", "ring": "context: 2",
                               "shares": "context: 2, context_method: all_to_all"}.items():
            self.assert_close(self.train(name, "some.bin", parallel), one)

    def test_a_resumed_job_goes_on_with_the_next_window_on_other_ranks(self):
        whole = self.train("whole", "some.bin")
        (self.folder / "rest" / "checkpoints").mkdir(parents=True)
        step = next((self.folder / "whole" / "checkpoints").glob("step-*3"))
        shutil.copytree(step, self.folder / "rest" / "checkpoints" / step.name)
        rest = self.train("rest", "some.bin", "data: 2, shard: zero3", "--resume")
        self.assertEqual(self.numbers(rest), self.numbers(whole[3:]))
        other = self.run_job("rest", "some.bin", "data: 1", "--resume", packing="false")
        self.assertEqual(other.returncode, 2, other.stderr)
        self.assertIn("data.packing", other.stderr)

    def test_a_pass_trains_each_token_that_has_one_before_it_in_its_document(self):
        # Of equal documents the windows are known: two of 12 tokens (11 rows) fit into 32.
        llmq(self.folder / "equal.bin", [[i % VOCAB] * 12 for i in range(200)], [True] * 2400)
        for record in self.train("equal", "equal.bin"):
            self.assertEqual(record["tokens"], BATCH * 22)

    def test_masks_are_counted_with_packing_and_without(self):
        for packing in ("true", "false"):
            some = self.train(f"some-{packing}", "some.bin", packing=packing)
            everything = self.train(f"all-{packing}", "all.bin", packing=packing)
            for a, b in zip(some, everything, strict=True):
                self.assertLess(0.55 * b["tokens"], a["tokens"])
                self.assertLess(a["tokens"], 0.85 * b["tokens"])
                # A mean over what is trained on, not over all: about ln(256) before anything is learned.
                if a["step"] == 1:
                    self.assertLess(abs(a["loss"] - 5.545), 0.1)
        self.assertEqual({r["tokens"] for r in everything}, {BATCH * SEQUENCE})

    def test_nothing_to_train_on_is_told_with_the_step_and_the_file(self):
        done = self.run_job("none", "none.bin")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("step 1: no token of its 8 sequences is trained on", done.stderr)
        self.assertIn("none.bin", done.stderr)

    def test_a_file_that_does_not_tell_its_documents_is_refused_where_it_is_named(self):
        (self.folder / "all.bin.documents").unlink()
        done = self.run_job("unknown", "all.bin")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, r"unknown\.yaml:3:\d+: data\.train\[0\]\.path: .*all\.bin")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
