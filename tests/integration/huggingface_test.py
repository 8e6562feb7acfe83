"""Hugging Face directories through real processes: evaluated, continued, trained and written again. What transformers
makes of the same directories stands in goldens/huggingface/expected.json (tests/parity/huggingface_parity.py)."""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_processes

GOLDENS = pathlib.Path(__file__).parent / "goldens" / "huggingface"
LAYOUTS = ["{data: 1}", "{data: 2, shard: zero3}", "{pipeline: 2}"]


def tensors(path: pathlib.Path) -> dict:
    """Of a safetensors file, or of all in a folder: name -> (dtype, shape, bytes)."""
    found = {}
    for file in sorted(path.glob("*.safetensors")) if path.is_dir() else [path]:
        content = file.read_bytes()
        begin = 8 + struct.unpack("<Q", content[:8])[0]
        for name, entry in json.loads(content[8:begin]).items():
            if name != "__metadata__":
                first, last = entry["data_offsets"]
                found[name] = (entry["dtype"], tuple(entry["shape"]), content[begin + first:begin + last])
    return found


class HuggingFaceTest(real_processes.RealProcesses):
    def setUp(self):
        super().setUp()
        shutil.copytree(GOLDENS, self.folder / "models")
        self.expected = json.loads((GOLDENS / "expected.json").read_text())

    def strata(self, *arguments, code: int = 0) -> subprocess.CompletedProcess:
        ended = subprocess.run([self.folder / "bin" / "strata", *map(str, arguments)], env=self.env,
                               cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                               timeout=real_processes.WAIT_SECONDS)
        self.assertEqual(ended.returncode, code, f"{arguments}: {ended.stderr}")
        return ended

    def job(self, family: str, parallel: str = "{data: 1}", train: str = "steps: 1") -> pathlib.Path:
        path = self.folder / "job.yaml"
        path.write_text(f"""
model: {{from: models/{family}}}
data: {{train: [{{path: models/{family}.bin}}]}}
train: {{{train}, sequence: 16, global_batch: 2, micro_batch: 1, optimizer: {{learning_rate: 0, weight_decay: 0}}}}
parallel: {parallel}
""")
        return path

    def assert_same_tensors(self, family: str, folder: pathlib.Path):
        before, after = tensors(self.folder / "models" / family), tensors(folder)
        self.assertEqual(before.keys(), after.keys())
        for name, tensor in before.items():
            self.assertEqual(after[name], tensor, name)

    def logits(self, source, data, sequence: int, *more) -> tuple[tuple, tuple]:
        """Of each window, and their shape."""
        dump = self.folder / "logits.safetensors"
        self.strata("eval", "--from", source, "--data", data, "--sequence", sequence, "--dump-logits", dump, *more)
        _, (windows, rows, vocab), content = tensors(dump)["logits"]
        return struct.unpack(f"<{windows * rows * vocab}f", content), (windows, rows, vocab)

    def generate(self, source, prompt: str, tokens: int, *more) -> bytes:
        """The likeliest bytes after the prompt, which need not be text."""
        found = subprocess.run([self.folder / "bin" / "strata", "generate", "--from", source, "--prompt", prompt, "--tokens",
                                str(tokens), "--temperature", "0", *more], env=self.env, cwd=self.folder,
                               stdin=subprocess.DEVNULL, capture_output=True, timeout=real_processes.WAIT_SECONDS)
        self.assertEqual(found.returncode, 0, found.stderr)
        self.assertEqual(found.stdout[:len(prompt)] + found.stdout[-1:], prompt.encode() + b"\n")
        return found.stdout[len(prompt):-1]

    def check_logits(self, family: str, source, *more, tolerance=1e-4):
        expected = self.expected[family]
        logits, (_, rows, vocab) = self.logits(source, f"models/{family}.bin", expected["sequence"], *more)
        every_row, every_token = expected["every"]
        for window, chosen in enumerate(expected["logits"]):
            for i, row in enumerate(chosen):
                for j, value in enumerate(row):
                    found = logits[(window * rows + i * every_row) * vocab + j * every_token]
                    self.assertAlmostEqual(found, value, delta=tolerance * expected["largest"])

    def check_family(self, family: str):
        self.check_logits(family, f"models/{family}")
        self.check_logits(family, f"models/{family}", "--precision", "bf16", tolerance=2e-2)
        self.check_logits(family, f"models/{family}", "--precision", "f16", "--ranks", "2", tolerance=4e-3)
        expected = self.expected[family]
        found = self.generate(f"models/{family}", expected["prompt"], len(expected["text"]))
        self.assertEqual(found, bytes(expected["text"]))
        self.strata("export", f"models/{family}", "-o", "again")
        self.assert_same_tensors(family, self.folder / "again")
        self.check_logits(family, "again")

    def check_layouts(self, family: str):
        """Each rank reads its part; together the parts are what was there."""
        for number, layout in enumerate(LAYOUTS):
            directory = self.folder / f"{family}-run{number}"
            self.strata("run", self.job(family, layout), "--dir", directory)
            self.strata("export", directory / "checkpoints", "-o", f"{family}-out{number}")
            self.assert_same_tensors(family, self.folder / f"{family}-out{number}")
        self.check_logits(family, self.folder / f"{family}-run1" / "checkpoints")

    def test_llama_is_what_transformers_makes_of_it(self):
        self.check_family("llama")

    def test_gpt2_is_what_transformers_makes_of_it(self):
        self.check_family("gpt2")

    def test_qwen2_is_what_transformers_makes_of_it(self):
        self.check_family("qwen2")

    def test_gemma3_is_what_transformers_makes_of_it(self):
        self.check_family("gemma3")

    def test_phi3_is_what_transformers_makes_of_it(self):
        self.check_family("phi3")

    def test_models_go_through_every_layout_unchanged(self):
        for family in ("llama", "gpt2"):
            self.check_layouts(family)

    def test_a_job_goes_on_from_the_checkpoint_of_another(self):
        self.strata("run", self.job("llama"), "--dir", "first")
        path = self.job("llama", train="steps: 3, start_from: first/checkpoints")
        ended = self.strata("run", path, "--dir", "second")
        self.assertIn("of another job", ended.stderr)
        records = (self.folder / "second" / "metrics.jsonl").read_text().split("\n")[:-1]
        self.assertEqual([json.loads(record)["step"] for record in records], [2, 3])
        self.strata("run", path, "--dir", "second", "--resume", "--set", "train.steps=4")
        other = self.strata("run", self.job("gpt2", train="steps: 3, start_from: first/checkpoints"), "--dir", "third",
                            code=2)
        self.assertIn("the checkpoint of another job", other.stderr)

    def test_evaluations_of_16_bits_have_the_loss_of_f32_on_one_and_more_ranks(self):
        self.strata("run", self.job("llama", "{data: 2, shard: zero1}"), "--dir", "run")

        def loss(source: str, *more) -> float:
            return json.loads(self.strata("eval", "--from", source, "--data", "models/llama.bin", "--sequence", 16, "-o",
                                          "json", *more).stdout)["loss"]

        for source in ("models/llama", "run/checkpoints"):
            expected = loss(source)
            for precision in ("bf16", "f16"):
                one = loss(source, "--precision", precision)
                self.assertNotEqual(one, expected)
                self.assertAlmostEqual(one, expected, delta=1e-2 * expected)
                self.assertEqual(loss(source, "--precision", precision, "--ranks", "2"), one)

    def test_text_of_16_bits_is_the_likeliest_by_their_logits_on_one_and_more_ranks(self):
        self.strata("run", self.job("qwen2", "{data: 2, shard: zero1}"), "--dir", "run")
        prompt, tokens = "In the beginning", 40
        text = self.generate("models/qwen2", prompt, tokens, "--precision", "bf16")
        for source, ranks in (("models/qwen2", "2"), ("run/checkpoints", "1")):
            self.assertEqual(self.generate(source, prompt, tokens, "--precision", "bf16", "--ranks", ranks), text, source)
        whole = prompt.encode() + text
        (self.folder / "text.bin").write_bytes(struct.pack(f"<{len(whole)}H", *whole))
        logits, (_, rows, vocab) = self.logits("models/qwen2", "text.bin", len(whole) - 1, "--precision", "bf16")
        self.assertNotEqual(logits, self.logits("models/qwen2", "text.bin", len(whole) - 1)[0])
        for row in range(len(prompt) - 1, rows):
            of_row = logits[row * vocab:(row + 1) * vocab]
            self.assertGreaterEqual(of_row[whole[row + 1]], max(of_row) - 1e-2 * max(map(abs, of_row)))

    def test_a_token_beyond_the_models_vocabulary_is_refused_with_file_and_position(self):
        config = json.loads((self.folder / "models" / "llama" / "config.json").read_text())
        beyond, position = config["vocab_size"], 40
        data = bytearray((self.folder / "models" / "llama.bin").read_bytes())
        struct.pack_into("<H", data, 2 * position, beyond)
        (self.folder / "beyond.bin").write_bytes(data)
        ended = self.strata("eval", "--from", "models/llama", "--data", "beyond.bin", "--sequence", 16, "--dump-logits",
                            "logits.safetensors", code=2)
        self.assertIn(f"beyond.bin: token {beyond} at position {position} is beyond the model's vocabulary of {beyond}",
                      ended.stderr)
        self.assertEqual(list(self.folder.glob("logits.safetensors*")), [])

    def test_a_config_without_weights_begins_anew_and_says_so(self):
        for path in (self.folder / "models" / "llama").glob("*.safetensors*"):
            path.unlink()
        ended = self.strata("run", self.job("llama"), "--dir", "run")
        self.assertIn("has no weights: the model begins with random ones", ended.stderr)
        ended = self.strata("generate", "--from", "models/llama", "--prompt", "x", code=2)
        self.assertIn("no weights in it", ended.stderr)

    def test_weights_that_are_not_the_models_are_refused_before_anything_starts(self):
        config = self.folder / "models" / "llama" / "config.json"
        sizes = json.loads(config.read_text())
        config.write_text(json.dumps({**sizes, "num_hidden_layers": 3}))
        ended = self.strata("run", self.job("llama"), "--dir", "run", code=2)
        self.assertIn("job.yaml:2:15: model.from: ", ended.stderr)
        self.assertIn("tensors are missing: model.layers.2.", ended.stderr)
        self.assertFalse((self.folder / "run").exists())

    def test_a_job_goes_on_only_from_the_weights_it_began_with(self):
        self.strata("run", self.job("llama"), "--dir", "run")
        moved = self.folder / "models" / "elsewhere"
        (self.folder / "models" / "llama").rename(moved)
        path = self.job("llama", train="steps: 2")
        path.write_text(path.read_text().replace("models/llama}", "models/elsewhere}"))
        self.strata("run", path, "--dir", "run", "--resume")
        file = sorted(moved.glob("*.safetensors"))[0]
        file.write_bytes(file.read_bytes()[:-1] + b"x")
        ended = self.strata("run", path, "--dir", "run", "--resume", "--set", "train.steps=3", code=2)
        self.assertIn("model.weights[0].digest", ended.stderr)

    def test_export_writes_other_types_and_never_over_what_is_there(self):
        self.strata("export", "models/llama", "-o", "wide", "--dtype", "f32")
        wide = tensors(self.folder / "wide")
        self.assertEqual({dtype for dtype, _, _ in wide.values()}, {"F32"})
        self.assertEqual(json.loads((self.folder / "wide" / "config.json").read_text())["dtype"], "float32")
        self.check_logits("llama", "wide")
        ended = self.strata("export", "models/llama", "-o", "wide", code=2)
        self.assertIn("is not empty", ended.stderr)
        self.strata("export", "wide", "-o", "narrow", "--dtype", "bf16")
        self.assert_same_tensors("llama", self.folder / "narrow")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
