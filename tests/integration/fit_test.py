"""What strata fit says of jobs is what their trainers allocate, to the byte: layouts, tiers and precisions."""

import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_processes

MODEL = "{family: llama, layers: 4, hidden: 64, heads: 4, kv_heads: 2, ffn: 128, vocab: 256}"
SSD = "{parameters: ssd, gradients: ssd, optimizer: ssd, activations: ssd}"
# name: what the job says beside its model and data.
JOBS = {
    "plain": "",
    "pairs": "parallel: {data: 2, shard: zero1, virtual_shards: 4}",
    "zero3": "parallel: {data: 2, shard: zero3}",
    "hybrid": "parallel: {data: 4, shard: zero2, shard_group: 2}",
    "tensor": "parallel: {tensor: 2, recompute: full}",
    "context": "parallel: {context: 2}",
    "stages": "parallel: {pipeline: 2, pipeline_schedule: zero_bubble}",
    "mesh": "parallel: {data: 2, pipeline: 2, shard: zero1, micro_order: depth_first}",
    "selective": "parallel: {recompute: selective}",
    "bf16": "train.precision: bf16",
    "f16": "train.precision: f16",
    "narrow": "train.precision: bf16\ntrain.optimizer: {master: split, state: 8bit}",
    "sgd": "train.optimizer: {name: sgd}",
    "host": "memory: {device: 64MiB, place: {parameters: host, optimizer: {host: 0.5, device: 0.5}}, "
            "stream: {resident: 2, moved: 1}}",
    "ssd": f"memory: {{device: 64MiB, ssd: [{{path: ssd, size: 64MiB}}], place: {SSD}}}\n"
           "parallel: {update_policy: spooled}",
    "speculative": "memory: {device: 64MiB, place: {optimizer: host}}\nparallel: {update_policy: speculative}",
}

ADAPTERS = {
    "lora": "train.method: lora\ntrain.precision: bf16\nparallel: {data: 2, shard: zero3}",
    "qlora": "train.method: qlora\ntrain.precision: bf16\nparallel: {recompute: full}",
    "int8": "train.method: qlora\ntrain.quantize: {type: int8}",
}


class FitTest(real_processes.RealProcesses):
    def strata(self, *arguments) -> subprocess.CompletedProcess:
        return subprocess.run(
            [self.folder / "bin" / "strata", *arguments], env=self.env, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=real_processes.WAIT_SECONDS)

    def write(self, name: str, more: str, model: str = MODEL):
        train = ["steps: 2", "sequence: 32", "global_batch: 8", "micro_batch: 1", "schedule: {warmup_steps: 1}"]
        rest = []
        for line in more.splitlines():
            (train if line.startswith("train.") else rest).append(line.removeprefix("train."))
        path = self.folder / f"{name}.yaml"
        path.write_text(f"""
model: {model}
data: {{train: [{{path: text.txt}}], validation: {{fraction: 0.1}}}}
train: {{{", ".join(train)}}}
evaluate: {{every_steps: 2, sequences: 5}}
""" + "\n".join(rest) + "\n")
        return path

    def check(self, name: str, path):
        """What is predicted of a job is what its trainers say that they have allocated."""
        told = self.strata("fit", path, "-o", "json")
        self.assertEqual(told.returncode, 0, f"{name}: {told.stderr}")
        report = json.loads(told.stdout)
        self.assertEqual(report["source"], "program", name)
        done = self.strata("run", path, "--dir", self.folder / name)
        self.assertEqual(done.returncode, 0, f"{name}: {done.stderr}")
        lines = (self.folder / name / "metrics.jsonl").read_text().splitlines()
        record = [record for record in map(json.loads, lines) if "loss" in record][-1]
        for tier, memory in record["memory"].items():
            arenas = [rank["arena_bytes"].get(tier, 0) for rank in report["ranks"]]
            classes = [sum(rank["tiers"].get(tier, {}).values()) for rank in report["ranks"]]
            # A record has the rank whose pages the operating system counts most, of whichever stage it is.
            self.assertIn(int(memory["arena_bytes"]), arenas, f"{name}, {tier}")
            self.assertEqual(arenas, classes, f"{name}, {tier}: on a CPU nothing is beside the arena")

    def test_what_fit_predicts_is_what_trainers_allocate(self):
        for name, more in JOBS.items():
            self.check(name, self.write(name, more))

    def test_of_adapters_too(self):
        self.assertEqual(self.strata("run", self.write("base", ""), "--dir", self.folder / "base").returncode, 0)
        told = self.strata("export", self.folder / "base" / "checkpoints", "-o", self.folder / "weights")
        self.assertEqual(told.returncode, 0, told.stderr)
        for name, more in ADAPTERS.items():
            self.check(name, self.write(name, more, "{from: weights}"))

    def test_a_limit_that_is_too_small_is_3_with_ways_that_fit(self):
        path = self.write("small", "memory: {device: 11MiB}")
        told = self.strata("fit", path, "-o", "json")
        self.assertEqual(told.returncode, 3, told.stderr)
        report = json.loads(told.stdout)
        self.assertFalse(report["fits"])
        self.assertTrue(report["ways"])
        for way in report["ways"]:
            self.assertIsNone(way["seconds"])
            settings = []
            for section in ("parallel", "memory", "train"):
                for key, value in way[section].items():
                    if key == "ssd":
                        value = [{**path, "path": "ways"} for path in value]
                    settings += ["--set", f"{section}.{key}={json.dumps(value)}"]
            if way["train"]["method"] != "full":
                continue  # adapters stand beside weights, which this model does not have
            told = self.strata("run", path, "--dir", self.folder / "way", "--set", "name=way", *settings)
            self.assertEqual(told.returncode, 0, f"{way}: {told.stderr}")
            subprocess.run(["rm", "-r", self.folder / "way"], check=True)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
