"""Training gives the numbers it gave before: step records of stored jobs, to the bit where the machine is the same.

The numbers depend on the instruction set (kernels/isa.h) and, through the library of matrix products, on the model of
the processor: on the one that the goldens were made on they must be equal, on any other close. After a change that is
meant to change numbers: STRATA_UPDATE_GOLDENS=FOLDER bazel-bin/…/metrics_golden_test writes what it found there.
"""

import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_processes

GOLDEN = pathlib.Path(__file__).parent / "goldens" / "metrics.json"
TOLERANCE = 1e-4  # relative; 50 steps of Adam amplify another order of sums: 1.5e-5 was seen between AVX2 and AVX-512
KEYS = ("loss", "grad_norm", "validation_loss")

# Name: what differs from the job below, as settings of `strata run`.
JOBS = {
    "plain": [],
    "tied": ["model.tied_embeddings=true"],
    "four-leaves": ["parallel.virtual_shards=4"],
    "two-ranks": ["parallel.data=2"],
    "two-ranks-zero1": ["parallel.data=2", "parallel.shard=zero1", "parallel.virtual_shards=4"],
    "micro-batches-of-two": ["train.micro_batch=2"],
    "two-ranks-zero2": ["parallel.data=2", "parallel.shard=zero2", "parallel.virtual_shards=4"],
    "four-ranks-zero3": ["parallel.data=4", "parallel.shard=zero3", "parallel.virtual_shards=4"],
    "four-ranks-hybrid": ["parallel.data=4", "parallel.shard=zero3", "parallel.shard_group=2", "parallel.virtual_shards=4"],
    "layer-first": ["parallel.micro_order=layer_first", "parallel.virtual_shards=4"],
    "recomputed": ["parallel.recompute=full", "parallel.virtual_shards=4"],
    "recomputed-in-part": ["parallel.recompute={save: [qkv, gate_up], layers: 1-2}", "parallel.virtual_shards=4"],
    "without-a-tree": ["parallel.data=2", "parallel.shard=zero3"],
}
# Layouts whose sums are the same tree of four leaves: the same bits on every machine.
SAME = ["four-leaves", "two-ranks-zero1", "two-ranks-zero2", "four-ranks-zero3", "four-ranks-hybrid", "layer-first",
        "recomputed", "recomputed-in-part"]


def job(folder: pathlib.Path) -> str:
    return f"""
model: {{family: llama, layers: 3, hidden: 64, heads: 4, kv_heads: 2, ffn: 160, vocab: 256}}
data: {{train: [{{path: {folder}/text.txt}}], validation: {{fraction: 0.1}}}}
train: {{steps: 50, sequence: 32, global_batch: 8, micro_batch: 1, optimizer: {{learning_rate: 3e-3}},
        schedule: {{warmup_steps: 10}}}}
evaluate: {{every_steps: 25, sequences: 5}}
checkpoint: {{keep: 1}}
"""


def processor() -> str:
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    values = dict(map(str.strip, line.split(":", 1)) for line in lines if ":" in line)
    return " ".join(values.get(key, "?") for key in ("vendor_id", "cpu family", "model", "model name"))


class MetricsGoldenTest(real_processes.RealProcesses):
    def records(self, name: str, settings: list) -> list:
        path = self.folder / f"{name}.yaml"
        path.write_text(job(self.folder))
        sets = [word for setting in settings for word in ("--set", setting)]
        done = subprocess.run([self.folder / "bin" / "strata", "run", path, "--dir", self.folder / name, *sets],
                              env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = (self.folder / name / "metrics.jsonl").read_text().splitlines()
        return [{key: record[key] for key in KEYS if key in record} for record in map(json.loads, lines)]

    def test_stored_jobs_give_the_stored_numbers(self):
        found = {name: self.records(name, settings) for name, settings in JOBS.items()}
        if folder := os.environ.get("STRATA_UPDATE_GOLDENS"):
            text = ",\n".join(f'{json.dumps(name)}: [\n' + ",\n".join(json.dumps(r) for r in records) + "]"
                              for name, records in found.items())
            pathlib.Path(folder, GOLDEN.name).write_text(
                f'{{"processor": {json.dumps(processor())},\n"jobs": {{\n{text}}}}}\n')
        for name in SAME[1:]:
            self.assertEqual(found[name], found[SAME[0]], f"{name} against {SAME[0]}")
        golden = json.loads(GOLDEN.read_text())
        self.assertEqual(golden["jobs"].keys(), found.keys())
        same = golden["processor"] == processor()
        for name, stored in golden["jobs"].items():
            self.assertEqual(len(stored), len(found[name]), name)
            for step, (a, b) in enumerate(zip(stored, found[name]), 1):
                self.assertEqual(a.keys(), b.keys(), (name, step))
                for key in a:
                    where = f"{name}, step {step}, {key}"
                    if same:
                        self.assertEqual(a[key], b[key], where)
                    else:
                        self.assertLess(abs(a[key] - b[key]), TOLERANCE * abs(a[key]), where)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
