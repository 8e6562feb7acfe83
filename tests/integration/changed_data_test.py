"""Real processes of a cluster whose jobs' data files change between two starts of their ranks, and of jobs that are
handed over with records in place of token files."""

import json
import os
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chat_files
import real_cluster


class ChangedDataTest(real_cluster.RealCluster):
    def setUp(self):
        super().setUp()
        chat_files.write(self.folder)
        self.strata("up", "--agents", 2, "--dir", self.cluster)

    def job(self, name: str, data: str, steps: str, checkpoint: int) -> pathlib.Path:
        path = self.folder / f"{name}.yaml"
        path.write_text(f"""
model: {{family: llama, layers: 1, hidden: 32, heads: 4, ffn: 64}}
data: {{{data}}}
train: {{{steps}, sequence: 32, global_batch: 8, micro_batch: 1}}
parallel: {{data: 2, shard: zero1}}
checkpoint: {{every_steps: {checkpoint}}}
""")
        return path

    def change_and_kill(self, directory):
        """The same number of bytes, so that nothing but the content tells."""
        text = bytearray((self.folder / "text.txt").read_bytes())
        text[-1] ^= 1
        (self.folder / "text.txt").write_bytes(text)
        os.kill(self.processes("strata-trainer")[0], signal.SIGKILL)
        self.strata("wait", "job", "--for=state=FAILED")
        reason = self.get("job")["reason"]
        self.assertIn(f"not what the job began with: {self.folder}/text.txt: its content differs from about byte", reason)
        self.assertRegex(reason, r"\(on n[01]\) — restore it")
        steps = [record["step"] for record in self.records(directory)]
        self.assertEqual(steps, sorted(set(steps)))

    def test_a_file_that_changes_before_the_first_checkpoint_fails_the_job(self):
        self.strata("submit", self.job("job", "train: [{path: text.txt}]", "steps: 1000000", 0))
        directory = self.get("job")["directory"]
        self.wait_for(lambda: len(self.records(directory)) > 2, "two steps")
        self.change_and_kill(directory)
        self.down()

    def test_a_file_that_changes_after_a_checkpoint_fails_the_job(self):
        self.strata("submit", self.job("job", "train: [{path: text.txt}]", "steps: 1000000", 10))
        directory = self.get("job")["directory"]
        self.wait_for(lambda: self.get("job")["checkpoint_step"] > 0, "a checkpoint")
        self.change_and_kill(directory)
        self.down()

    def test_records_are_prepared_by_whoever_submits_them(self):
        data = "tokenizer: tokenizer, train: [{path: chat.jsonl}]"
        submitted = self.strata("submit", self.job("job", data, "epochs: 2", 0))
        self.assertRegex(submitted.stderr, r"2 epochs of \d+ sequences: \d+ steps")
        self.strata("wait", "job", "--for=state=SUCCEEDED")
        described = self.strata("describe", "job", "job").stdout
        self.assertIn(f"{self.folder}/chat.jsonl", described)
        self.assertIn(f"{self.folder}/.strata/chat-", described)
        spec = json.loads(self.strata("get", "job", "job", "-o", "json").stdout)["spec"]
        self.assertEqual(spec["train"]["epochs"], 2)
        self.assertEqual(len(self.records(self.get("job")["directory"])), spec["train"]["steps"])
        self.down()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
