"""Real processes of jobs that are given conversations (JSONL) and a tokenizer: what is trained on, in epochs, after a
kill, at other rank counts, and once the files have changed."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chat_files
import real_processes

KEYS = ("step", "loss", "grad_norm", "learning_rate", "tokens", "applied", "validation_loss")


class ChatJobsTest(real_processes.RealProcesses):
    def setUp(self):
        super().setUp()
        chat_files.write(self.folder)

    def strata(self, *arguments, code: int = 0) -> subprocess.CompletedProcess:
        ended = subprocess.run([self.folder / "bin" / "strata", *map(str, arguments)], env=self.env,
                               cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                               timeout=real_processes.WAIT_SECONDS)
        self.assertEqual(ended.returncode, code, f"{arguments}: {ended.stderr}")
        return ended

    def job(self, name: str = "job", data: str = "", train: str = "steps: 24") -> str:
        data = data or "train: [{path: chat.jsonl}], validation: {fraction: 0.1}"
        path = self.folder / f"{name}.yaml"
        path.write_text(f"""
model: {{family: llama, layers: 2, hidden: 32, heads: 4, kv_heads: 2, ffn: 64}}
data: {{tokenizer: tokenizer, {data}}}
train: {{{train}, sequence: 32, global_batch: 8, micro_batch: 1, schedule: {{warmup_steps: 5}}}}
parallel: {{data: 2, shard: zero1, virtual_shards: 4}}
evaluate: {{every_steps: 8, sequences: 5}}
checkpoint: {{every_steps: 4}}
""")
        return path

    def run_job(self, path, name: str, *arguments, code: int = 0) -> subprocess.CompletedProcess:
        return self.strata("run", path, "--dir", self.folder / name, *arguments, code=code)

    def records(self, name: str) -> list:
        path = self.folder / name / "metrics.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def numbers(self, name: str) -> list:
        return [[record.get(key) for key in KEYS] for record in self.records(name)]

    def test_a_killed_job_goes_on_with_the_next_sample_on_other_ranks(self):
        job = self.job()
        self.run_job(job, "reference")
        reference = self.numbers("reference")
        self.assertEqual(len(reference), 24)
        child = subprocess.Popen([self.folder / "bin" / "strata", "run", job, "--dir", self.folder / "killed"],
                                 env=self.env, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(child.wait)
        self.wait_for(lambda: (self.folder / "killed/checkpoints/step-00000008").exists(), "a checkpoint of step 8")
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.wait_for(lambda: not self.processes(), "all processes gone")
        ended = self.run_job(job, "killed", "--resume", "--set", "parallel.data=4")
        self.assertIn("its tokens are in", ended.stderr)  # not made again
        self.assertEqual(self.numbers("killed"), reference)

    def test_packed_conversations_are_resumed_like_others(self):
        job = self.job(data="packing: true, train: [{path: chat.jsonl}], validation: {fraction: 0.1}")
        self.run_job(job, "reference", "--set", "train.steps=12")
        self.run_job(job, "stopped", "--set", "train.steps=12", "--set", "checkpoint.every_steps=4")
        for step in (8, 12):
            shutil.rmtree(self.folder / f"stopped/checkpoints/step-{step:08}", ignore_errors=True)
        self.run_job(job, "stopped", "--resume", "--set", "train.steps=12", "--set", "parallel.data=1")
        self.assertEqual(self.numbers("stopped"), self.numbers("reference"))
        self.assertTrue(all(0 < record["tokens"] < 8 * 32 for record in self.records("stopped")))

    def test_epochs_become_steps_that_are_told(self):
        ended = self.run_job(self.job(train="epochs: 3"), "job")
        told = re.search(r"3 epochs of ([\d,]+) sequences: ([\d,]+) steps", ended.stderr)
        sequences, steps = (int(number.replace(",", "")) for number in told.groups())
        self.assertEqual(steps, -(-3 * sequences // 8))
        self.assertEqual(len(self.records("job")), steps)
        both = self.run_job(self.job(train="epochs: 3, steps: 5"), "both", code=2)
        self.assertRegex(both.stderr, r"job\.yaml:\d+:\d+: train\.steps: given together with train\.epochs")

    def test_the_completed_file_makes_the_same_job_again(self):
        written = self.strata("submit", self.job(train="epochs: 2"), "--validate-only", "-o", "yaml")
        (self.folder / "again.yaml").write_text(written.stdout)
        again = self.strata("submit", self.folder / "again.yaml", "--validate-only", "-o", "yaml")
        self.assertEqual(again.stdout, written.stdout)
        self.assertIn("chat.jsonl", written.stdout)  # what the token file was made of

    def test_a_wrong_line_is_told_by_its_number(self):
        lines = (self.folder / "chat.jsonl").read_text().split("\n")
        lines[6] = '{"messages": [{"role": "user"}]}'
        (self.folder / "chat.jsonl").write_text("\n".join(lines))
        ended = self.run_job(self.job(), "job", code=2)
        self.assertRegex(ended.stderr, r"chat\.jsonl:7: ")
        self.assertEqual(self.records("job"), [])

    def test_the_tokenizer_is_checked_at_its_key(self):
        ended = self.run_job(self.job(), "job", "--set", "data.tokenizer=nowhere", code=2)
        self.assertRegex(ended.stderr, r"data\.tokenizer: .*nowhere")
        small = self.run_job(self.job(), "job", "--set", "model.vocab=300", code=2)
        self.assertIn("vocab 300 is smaller than the tokenizer's 459", small.stderr)

    def test_changed_records_are_refused_and_moved_ones_are_not(self):
        job = self.job()
        self.run_job(job, "job", "--set", "train.steps=8")
        (self.folder / "chat.jsonl").rename(self.folder / "moved.jsonl")
        moved = self.job("moved", data="train: [{path: moved.jsonl}], validation: {fraction: 0.1}")
        self.run_job(moved, "job", "--resume", "--set", "train.steps=10")
        self.assertEqual(len(self.records("job")), 10)
        lines = (self.folder / "moved.jsonl").read_text().split("\n")
        before = (self.folder / "moved.jsonl").stat().st_size
        (self.folder / "moved.jsonl").write_text("\n".join(lines[2:]))
        after = (self.folder / "moved.jsonl").stat().st_size
        ended = self.run_job(moved, "job", "--resume", code=2)
        self.assertRegex(ended.stderr, rf"moved\.jsonl: is not what the checkpoint was trained on: "
                                       rf"its size went from {before} to {after} bytes — restore it")
        self.assertEqual(len(self.records("job")), 10)

    def test_a_changed_text_of_the_same_size_is_refused(self):
        path = self.folder / "bytes.yaml"
        path.write_text("""
model: {family: llama, layers: 1, hidden: 32, heads: 4, ffn: 64}
data: {train: [{path: text.txt}]}
train: {steps: 4, sequence: 32, global_batch: 4}
""")
        self.run_job(path, "bytes")
        text = bytearray((self.folder / "text.txt").read_bytes())
        text[len(text) // 2] ^= 1
        (self.folder / "text.txt").write_bytes(text)
        ended = self.run_job(path, "bytes", "--resume", "--set", "train.steps=8", code=2)
        self.assertRegex(ended.stderr, rf"text\.txt: .*its content differs from about byte \d+ of {len(text)} on")

    def test_eval_counts_the_trained_tokens_of_records(self):
        self.run_job(self.job(), "job", "--set", "train.steps=8")
        evaluate = ("eval", "--from", self.folder / "job/checkpoints", "-o", "json", "--data")
        of_records = json.loads(self.strata(*evaluate, "chat.jsonl").stdout)
        prepared = next((self.folder / ".strata").glob("chat-*.bin"))
        of_tokens = json.loads(self.strata(*evaluate, prepared).stdout)
        self.assertEqual(of_records, of_tokens)
        (self.folder / "plain.txt").write_text(" ".join(chat_files.CAPITALS.values()) * 5)
        of_text = json.loads(self.strata(*evaluate, "plain.txt").stdout)
        self.assertGreater(of_text["tokens"], 0)
        self.assertLess(of_records["tokens"], 0.9 * self.tokens_of(prepared))

    def test_a_small_model_from_scratch_answers_through_the_chat_template(self):
        (self.folder / "chat.yaml").write_text("""
model: {family: llama, layers: 2, hidden: 96, heads: 4, kv_heads: 2, ffn: 256, tied_embeddings: true}
data: {tokenizer: tokenizer, train: [{path: chat.jsonl}]}
train: {epochs: 40, sequence: 64, global_batch: 8, optimizer: {learning_rate: 3e-3}, schedule: {warmup_steps: 20}}
""")
        self.run_job("chat.yaml", "chat")
        answer = self.strata("generate", "--from", self.folder / "chat", "--chat", "--prompt",
                             "What is the capital of France?", "--temperature", 0, "-o", "json")
        said = json.loads(answer.stdout)
        self.assertEqual(said["text"].strip(), "The capital of France is Paris.", said)

    def tokens_of(self, token_file) -> int:
        return int.from_bytes(token_file.read_bytes()[16:20], "little")  # of llmq's header


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
