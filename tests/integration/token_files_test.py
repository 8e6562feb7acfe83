"""Token files from `strata data prepare` to training: the same tokens train alike whatever file holds them."""

import gzip
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_processes


def job(path: pathlib.Path, validation: pathlib.Path) -> str:
    return f"""
model: {{family: llama, layers: 1, hidden: 32, heads: 2, ffn: 64, vocab: 256}}
data: {{train: [{{path: {path}}}], validation: {{path: {validation}}}}}
train: {{steps: 4, sequence: 64, global_batch: 4, schedule: {{warmup_steps: 1}}}}
evaluate: {{every_steps: 2, sequences: 5}}
"""


class TokenFilesTest(real_processes.RealProcesses):
    def strata(self, *arguments) -> subprocess.CompletedProcess:
        return subprocess.run([self.folder / "bin" / "strata", *map(str, arguments)], env=self.env, cwd=self.folder,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=real_processes.WAIT_SECONDS)

    def good(self, *arguments) -> str:
        done = self.strata(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def train(self, name: str, path: pathlib.Path) -> subprocess.CompletedProcess:
        file = self.folder / f"{name}.yaml"
        file.write_text(job(path, path))
        return self.strata("run", file, "--dir", self.folder / name)

    def numbers(self, name: str) -> list:
        """What does not depend on time and place of the step records."""
        lines = (self.folder / name / "metrics.jsonl").read_text().splitlines()
        records = [json.loads(line) for line in lines]
        return [{key: r[key] for key in ("step", "loss", "grad_norm", "tokens", "validation_loss") if key in r}
                for r in records]

    def test_every_format_trains_like_the_text(self):
        text = self.folder / "text.txt"
        done = self.train("text", text)
        self.assertEqual(done.returncode, 0, done.stderr)
        expected = self.numbers("text")
        self.assertEqual(len(expected), 4)
        for kind, name in (("llmq", "a.bin"), ("u16", "b.bin"), ("llmc", "c.bin"), ("megatron", "d.idx")):
            self.good("data", "prepare", text, "-o", self.folder / name, "--format", kind)
            done = self.train(kind, self.folder / name)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.numbers(kind), expected, kind)
            shown = self.good("data", "show", self.folder / name, "--samples", 1)
            self.assertIn("⟦" + text.read_text()[:4000], shown)
            self.assertIn("100.0 % trained", shown)

    def test_tokens_beyond_the_model_are_refused_before_training(self):
        path = self.folder / "wide.bin"
        path.write_bytes(struct.pack("<400H", *range(400)))
        done = self.train("wide", path)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("256", done.stderr)
        self.assertIn("400", done.stderr)

    def test_a_damaged_file_is_named_with_its_place_in_the_job(self):
        path = self.folder / "cut.bin"
        path.write_bytes(b"BIN.TOK\n" + struct.pack("<5i", 2, 4, 1000, 256, 0) + bytes(2000))
        done = self.train("cut", path)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"cut\.yaml:3:\d+: data\.train\[0\]\.path: .*cut\.bin: its header says 1000 tokens")

    def test_bad_records_are_named_and_nothing_is_written(self):
        records = self.folder / "bad.jsonl"
        records.write_text('{"text": "x"}\n{"text": 1}\n{"texts": ""}\n')
        done = self.strata("data", "prepare", records, "-o", "out.bin")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"bad\.jsonl:2: .*\n.*bad\.jsonl:3: ")
        self.assertEqual(sorted(p.name for p in self.folder.glob("out.bin*")), [])
        self.good("data", "prepare", records, "-o", "out.bin", "--skip-bad")
        missing = self.strata("data", "prepare", "none.txt", "-o", "out.bin")
        self.assertEqual((missing.returncode, missing.stderr.splitlines()[-1]), (2, "none.txt: no such file"))

    def test_killed_it_goes_on_to_the_same_bytes(self):
        records = self.folder / "many.jsonl.gz"
        with gzip.open(records, "wt", compresslevel=1) as file:
            for i in range(60000):
                file.write(json.dumps({"text": f"record {i} " + "word " * (i % 97)}) + "\n")
        self.good("data", "prepare", records, "-o", "whole.bin")
        arguments = [self.folder / "bin" / "strata", "data", "prepare", records, "-o", "again.bin"]
        for _ in range(5):
            child = subprocess.Popen(arguments, env=self.env, cwd=self.folder, stderr=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL)
            partial = self.folder / "again.bin.partial"
            self.wait_for(lambda: child.poll() is not None or partial.exists() and partial.stat().st_size > 1 << 20,
                          "a megabyte")
            child.send_signal(signal.SIGKILL)
            child.wait()
        self.good("data", "prepare", records, "-o", "again.bin")
        for ending in ("bin", "bin.documents"):
            self.assertEqual((self.folder / f"again.{ending}").read_bytes(),
                             (self.folder / f"whole.{ending}").read_bytes())

    def test_an_interrupt_keeps_what_was_done(self):
        text = self.folder / "long.txt"
        text.write_bytes(b"some words of a long text\n" * 2000000)
        child = subprocess.Popen([self.folder / "bin" / "strata", "data", "prepare", text, "-o", "long.bin"],
                                 env=self.env, cwd=self.folder, stderr=subprocess.PIPE, text=True)
        self.addCleanup(child.stderr.close)
        partial = self.folder / "long.bin.partial"
        self.wait_for(lambda: partial.exists() and partial.stat().st_size > 1 << 20, "a megabyte")
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(real_processes.WAIT_SECONDS), 130)
        self.assertIn("goes on where it ended", child.stderr.read())
        done = self.strata("data", "prepare", text, "-o", "long.bin")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("going on after", done.stderr)
        self.assertEqual((self.folder / "long.bin").stat().st_size, 1024 + 52000000 * 4 + 52000000 // 8)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
