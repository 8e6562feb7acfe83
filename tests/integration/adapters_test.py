"""Adapters beside a Hugging Face directory through real processes: every layout's numbers are one rank's, checkpoints
hold adapters alone, and what is exported is what was trained."""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import huggingface_test
import real_processes

STEPS = 4
RANK, ALPHA = 4, 8
INT8 = "qlora, quantize: {type: int8}"
LAYOUTS = ["{data: 2, shard: zero1}", "{data: 2, shard: zero2}", "{data: 2, shard: zero3}", "{tensor: 2}",
           "{pipeline: 2}", "{context: 2}"]
# Where the frozen base waits, and with it what trains.
PLACES = {
    "host": "{parameters: host, gradients: host, optimizer: host}",
    "ssd": "{parameters: ssd, gradients: host, optimizer: host, activations: ssd}",
}
BLOCKS = 2 * (2 * 128 * 128 + 2 * 64 * 128 + 3 * 256 * 128)  # the base's frozen weights in its layers


def f32(value: float) -> float:
    return struct.unpack("<f", struct.pack("<f", value))[0]


def through_int8(content: bytes, columns: int) -> bytes:
    """What f32 rows become in 8 bits."""
    values = struct.unpack(f"<{len(content) // 4}f", content)
    found = []
    for begin in range(0, len(values), columns):
        row = values[begin:begin + columns]
        scale = f32(max(map(abs, row)) / 127)
        found += [f32(round(f32(value / scale)) * scale) for value in row]
    return struct.pack(f"<{len(found)}f", *found)


def write_int8_model(source: pathlib.Path, folder: pathlib.Path):
    """A copy of a directory whose blocks' matrices are what they become in 8 bits."""
    shutil.copytree(source, folder)
    for path in folder.glob("*.safetensors"):
        content = bytearray(path.read_bytes())
        begin = 8 + struct.unpack("<Q", content[:8])[0]
        for name, entry in json.loads(content[8:begin]).items():
            if name.endswith("_proj.weight"):
                at = slice(*(begin + offset for offset in entry["data_offsets"]))
                content[at] = through_int8(bytes(content[at]), entry["shape"][1])
        path.write_bytes(content)


class AdaptersTest(real_processes.RealProcesses):
    def setUp(self):
        super().setUp()
        # A base whose sizes every layout divides, and whose cut rows are whole blocks of NF4.
        path = self.folder / "base.yaml"
        path.write_text("""
model: {family: llama, layers: 2, hidden: 128, heads: 4, kv_heads: 2, ffn: 256, vocab: 256}
data: {train: [{path: text.txt}]}
train: {steps: 8, sequence: 16, global_batch: 8, schedule: {warmup_steps: 2}}
""")
        self.strata("run", path, "--dir", "base")
        self.strata("export", "base/checkpoints", "-o", "model")

    strata = huggingface_test.HuggingFaceTest.strata

    def job(self, method: str = "lora", parallel: str = "{data: 1}", model: str = "model", steps: int = STEPS,
            place: str = "") -> pathlib.Path:
        path = self.folder / "job.yaml"
        tiers = f"""
memory: {{device: 64MiB, host: 64MiB, ssd: [{{path: ssd, size: 64MiB}}], place: {place},
         stream: {{resident: 1, moved: 1}}}}""" if place else ""
        path.write_text(f"""
model: {{from: {model}}}
data: {{train: [{{path: text.txt}}]}}
train: {{steps: {steps}, sequence: 16, global_batch: 4, micro_batch: 1, method: {method},
        lora: {{rank: {RANK}, alpha: {ALPHA}}}, schedule: {{name: constant, warmup_steps: 1}},
        optimizer: {{learning_rate: 0.01}}}}
parallel: {parallel}{tiers}
""")
        return path

    def train(self, name: str, *arguments, **job) -> list[tuple[float, float]]:
        """Loss and gradient norm of each step."""
        self.strata("run", self.job(**job), "--dir", name, *arguments)
        records = map(json.loads, (self.folder / name / "metrics.jsonl").read_text().splitlines())
        steps = [record for record in records if "loss" in record]
        for record in steps:
            for tier in record["memory"].values():
                self.assertEqual(tier["arena_bytes"], tier["predicted_bytes"], name)
        return [(r["loss"], r["grad_norm"]) for r in steps]

    def assert_close(self, found: list, expected: list, tolerance: float):
        self.assertEqual(len(found), len(expected))
        for a, b in zip(found, expected):
            for x, y in zip(a, b):
                self.assertLessEqual(abs(x - y), tolerance * abs(y), (found, expected))

    def check_layouts(self, method: str, tolerance: float):
        one = self.train("one", method=method)
        for number, layout in enumerate(LAYOUTS):
            self.assert_close(self.train(f"layout{number}", method=method, parallel=layout), one, tolerance)

    def test_every_layout_has_the_numbers_of_one_rank(self):
        self.check_layouts("lora", 1e-4)

    def test_every_layout_has_the_numbers_of_one_rank_beside_a_quantised_base(self):
        # What a tensor group cuts is grouped otherwise: scales differ by a code.
        self.check_layouts("qlora", 1e-2)

    def test_every_layout_has_the_numbers_of_one_rank_beside_rows_of_8_bits(self):
        one = self.train("one", method=INT8)
        for number, layout in enumerate(["{data: 2, shard: zero3}", "{tensor: 2}", "{pipeline: 2}"]):
            self.assert_close(self.train(f"layout{number}", method=INT8, parallel=layout), one, 1e-5)

    def test_rows_of_8_bits_train_as_the_numbers_that_they_stand_for(self):
        write_int8_model(self.folder / "model", self.folder / "rounded")
        self.assertEqual(self.train("int8", method=INT8), self.train("numbers", model="rounded"))
        losses = [self.loss(f"{name}/checkpoints") for name in ("int8", "numbers")]
        self.assertEqual(*losses)
        self.assertNotEqual(self.train("full")[0], self.train("first", model="rounded", steps=1)[0])

    def test_every_layout_has_the_numbers_of_one_rank_beside_nf4_with_scales_in_f32(self):
        method = "qlora, quantize: {double: false}"
        one = self.train("one", method=method)
        self.assertNotEqual(one, self.train("double", method="qlora"))
        for number, layout in enumerate(["{data: 2, shard: zero3}", "{tensor: 2}"]):
            self.assert_close(self.train(f"layout{number}", method=method, parallel=layout), one, 1e-5)

    def test_checkpoints_hold_adapters_and_go_on_from_there(self):
        through = self.train("through")
        self.train("first", steps=2)
        manifest = next((self.folder / "first" / "checkpoints").glob("step-*/manifest.json"))
        names = {entry["name"] for entry in json.loads(manifest.read_text())["tensors"]}
        self.assertTrue(names and all(".lora_" in name for name in names), names)
        shutil.copytree(self.folder / "first", self.folder / "second")
        again = self.train("second", "--resume", parallel="{tensor: 2}")
        self.assert_close(again[-2:], through[2:], 1e-4)

    def check_tiers(self, method: str, bytes_per_weight: float):
        for shard in ("zero1", "zero2", "zero3"):
            layout = {"method": method, "parallel": f"{{data: 2, shard: {shard}}}"}
            plain = self.train(f"{shard}-plain", **layout)
            for tier, place in PLACES.items():
                name = f"{shard}-{tier}"
                self.assertEqual(self.train(name, place=place, **layout), plain, name)
                record = json.loads((self.folder / name / "metrics.jsonl").read_text().splitlines()[-1])
                ranks = 2 if shard == "zero3" or tier == "ssd" else 1  # that share the base's bytes
                self.assertGreaterEqual(int(record["memory"][tier]["arena_bytes"]), BLOCKS * bytes_per_weight / ranks, name)

    def test_a_base_on_host_or_ssd_leaves_every_shard_levels_bits(self):
        self.check_tiers("lora", 4)

    def test_an_nf4_base_on_host_or_ssd_leaves_every_shard_levels_bits(self):
        self.check_tiers("qlora", 8512 / 16384)

    def test_a_base_of_8_bits_on_host_or_ssd_leaves_every_shard_levels_bits(self):
        self.check_tiers(INT8, 1)

    def test_a_job_goes_on_between_tiers_and_its_merged_export_is_that_of_plain_memory(self):
        layout = {"method": "qlora", "parallel": "{data: 2, shard: zero3}"}
        plain = self.train("plain", **layout)
        self.train("tiers", steps=2, place=PLACES["ssd"], **layout)
        again = self.train("tiers", "--resume", place=PLACES["host"], **layout)
        self.assertEqual(again, plain)
        for name in ("plain", "tiers"):
            self.strata("export", f"{name}/checkpoints", "-o", f"{name}-adapter")
            self.strata("export", f"{name}/checkpoints", "-o", f"{name}-merged", "--merge")
        for kind in ("adapter", "merged"):
            found, expected = (huggingface_test.tensors(self.folder / f"{name}-{kind}") for name in ("tiers", "plain"))
            self.assertEqual(found, expected, kind)
        self.assertNotEqual(expected, huggingface_test.tensors(self.folder / "model"))

    def loss(self, source) -> float:
        found = self.strata("eval", "--from", source, "--data", "text.txt", "--sequence", 16, "-o", "json")
        return json.loads(found.stdout)["loss"]

    def test_what_is_exported_is_what_was_trained(self):
        self.train("run")
        checkpoints = self.folder / "run" / "checkpoints"
        trained = self.loss(checkpoints)
        self.assertNotAlmostEqual(trained, self.loss("model"), places=3)
        self.strata("export", checkpoints, "-o", "merged", "--merge", "--dtype", "f32")
        self.assertAlmostEqual(self.loss("merged"), trained, delta=1e-4 * trained)
        self.strata("export", checkpoints, "-o", "adapter")
        config = json.loads((self.folder / "adapter" / "adapter_config.json").read_text())
        self.assertEqual((config["peft_type"], config["r"], config["lora_alpha"]), ("LORA", RANK, ALPHA))
        written = huggingface_test.tensors(self.folder / "adapter" / "adapter_model.safetensors")
        self.assertIn("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", written)
        # Going on from it begins where the first job ended.
        more = self.train("more", model="model, adapter: adapter", steps=1)
        self.assertLess(more[0][0], 1.05 * trained)

    def test_an_adapter_that_is_not_the_jobs_is_refused_before_anything_starts(self):
        self.train("first", steps=1)
        self.strata("export", "first/checkpoints", "-o", "adapter")

        def refused(*arguments) -> str:
            ended = self.strata("run", path, "--dir", "second", *arguments, code=2)
            self.assertFalse((self.folder / "second").exists())
            return ended.stderr

        path = self.job(model="model, adapter: adapter")
        path.write_text(path.read_text().replace(f"rank: {RANK}, alpha: {ALPHA}", "rank: 8, alpha: 3"))
        told = refused()
        self.assertRegex(told, r"job.yaml:5:22: train.lora.rank: is 8, .*/adapter has 4 — give rank: 4\n")
        self.assertRegex(told, r"job.yaml:5:32: train.lora.alpha: is 3, .*/adapter has 8 — give alpha: 8\n")
        path = self.job(model="model, adapter: adapter")
        self.assertRegex(refused("--set", "train.lora.targets=[q_proj]"),
                         r"train.lora.targets: do not name model.layers.0.mlp.down_proj and 11 more, which .*/adapter")
        (self.folder / "adapter" / "adapter_model.safetensors").write_bytes(b"no")
        self.assertIn("job.yaml:2:31: model.adapter: ", refused())
        path = self.job(model="model, adapter: none")
        self.assertIn("none: no such directory — correct the path", refused())

    def test_unknown_targets_are_refused(self):
        ended = self.strata("run", self.job(), "--dir", "run", "--set", "train.lora.targets=[q_porj]", code=2)
        self.assertIn("did you mean q_proj?", ended.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
