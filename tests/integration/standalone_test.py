"""Real processes of `strata run`: what is left when any of them is killed, and how a job goes on afterwards."""

import contextlib
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_processes

SURVIVAL_SECONDS = 5  # after which no process may be left


def job(folder: pathlib.Path, steps: int, ranks: int, batch: int = 8, **more) -> str:
    extra = {"train": "", "checkpoint": "", **more}
    return f"""
model: {{family: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 128, vocab: 256}}
data: {{train: [{{path: {folder}/text.txt}}], validation: {{fraction: 0.1}}}}
train: {{steps: {steps}, sequence: 64, global_batch: {batch}, micro_batch: 1, schedule: {{warmup_steps: 5}}{extra["train"]}}}
parallel: {{data: {ranks}, shard: zero1, virtual_shards: 4}}
evaluate: {{every_steps: 5, sequences: 5}}
checkpoint: {{keep: 3{extra["checkpoint"]}}}
"""


class StandaloneTest(real_processes.RealProcesses):
    def start(self, *arguments) -> subprocess.Popen:
        child = subprocess.Popen([self.folder / "bin" / "strata", *map(str, arguments)], env=self.env,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True, cwd=self.folder, start_new_session=True)
        for cleanup in (child.wait, child.kill, child.stdout.close, child.stderr.close):  # last one first
            self.addCleanup(cleanup)
        return child

    def finish(self, child: subprocess.Popen) -> tuple:
        out, err = child.communicate(timeout=real_processes.WAIT_SECONDS)
        return child.returncode, out, err

    def run_job(self, text: str, name: str, *arguments) -> tuple:
        path = self.folder / f"{name}.yaml"
        path.write_text(text)
        return self.finish(self.start("run", path, "--dir", self.folder / name, *arguments))

    def records(self, name: str) -> list:
        path = self.folder / name / "metrics.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def start_long(self, name: str) -> subprocess.Popen:
        """A job of two ranks that takes far longer than the test, some steps in."""
        path = self.folder / f"{name}.yaml"
        path.write_text(job(self.folder, 100000, 2))
        child = self.start("run", path, "--dir", self.folder / name)
        self.wait_for(lambda: len(self.records(name)) >= 2 or child.poll() is not None, "two steps")
        self.assertIsNone(child.poll())
        self.assertEqual(len(self.processes("strata-trainer")), 2)
        return child

    def assert_nobody_left(self):
        self.wait_for(lambda: not self.processes(), "all processes gone", SURVIVAL_SECONDS)

    # Killing

    def test_killing_the_client_ends_all(self):
        child = self.start_long("job")
        child.kill()
        self.assert_nobody_left()

    def test_killing_the_worker_ends_all(self):
        child = self.start_long("job")
        os.kill(self.processes("strata-worker")[0], signal.SIGKILL)
        code, _, _ = self.finish(child)
        self.assertEqual(code, 1)
        self.assert_nobody_left()

    def test_killing_a_trainer_fails_the_job_and_names_it(self):
        child = self.start_long("job")
        os.kill(self.processes("strata-trainer")[1], signal.SIGKILL)
        code, _, err = self.finish(child)
        self.assertEqual(code, 1)
        self.assertRegex(err, r"rank [01] was killed by signal 9 .* step \d+, '.+'")
        self.assert_nobody_left()

    def test_a_stopped_trainer_does_not_outlive_the_client(self):
        child = self.start_long("job")
        os.kill(self.processes("strata-trainer")[0], signal.SIGSTOP)
        child.kill()
        self.assert_nobody_left()

    def test_trainers_end_themselves_when_the_worker_dies_and_one_is_stuck(self):
        self.start_long("job")
        trainers = self.processes("strata-trainer")
        os.kill(trainers[0], signal.SIGSTOP)
        os.kill(self.processes("strata-worker")[0], signal.SIGKILL)
        self.wait_for(lambda: trainers[1] not in self.processes(), "the running trainer gone", SURVIVAL_SECONDS)
        with contextlib.suppress(ProcessLookupError):  # the kernel may have ended its orphaned group
            os.kill(trainers[0], signal.SIGCONT)
        self.assert_nobody_left()

    # Stopping and going on

    def test_an_interrupted_job_commits_and_continues_as_if_never_stopped(self):
        text = job(self.folder, 40, 2)
        code, _, err = self.run_job(text, "reference")
        self.assertEqual(code, 0, err)
        reference = self.records("reference")
        self.assertEqual([r["step"] for r in reference], list(range(1, 41)))
        self.assertTrue(all(math.isfinite(r["loss"]) for r in reference))
        self.assertEqual([r["step"] for r in reference if "validation_loss" in r], list(range(5, 41, 5)))

        path = self.folder / "stopped.yaml"
        path.write_text(text)
        child = self.start("run", path, "--dir", self.folder / "stopped")
        self.wait_for(lambda: len(self.records("stopped")) >= 3, "three steps")
        child.send_signal(signal.SIGINT)
        code, _, err = self.finish(child)
        self.assertEqual(code, 130, err)
        self.assert_nobody_left()
        done = self.records("stopped")
        self.assertLess(len(done), 40)
        folder = self.folder / "stopped" / "checkpoints"
        self.assertEqual([p.name for p in folder.glob("step-*")], [f"step-{len(done):08}"])

        code, _, err = self.run_job(text, "stopped", "--resume", "--set", "parallel.data=4")
        self.assertEqual(code, 0, err)
        after = self.records("stopped")
        self.assertEqual(after[:len(done)], done)
        for key in ("step", "loss", "grad_norm", "learning_rate", "tokens", "applied", "validation_loss"):
            self.assertEqual([r.get(key) for r in after], [r.get(key) for r in reference], key)
        self.assertEqual({r["epoch"] for r in after[len(done):]}, {2})

    def test_a_second_interrupt_ends_at_once(self):
        child = self.start_long("job")
        for trainer in self.processes("strata-trainer"):
            os.kill(trainer, signal.SIGSTOP)  # so that the first one cannot be obeyed
        child.send_signal(signal.SIGINT)
        child.send_signal(signal.SIGTERM)  # another number: two equal pending signals would be one
        self.assertEqual(self.finish(child)[0], 130)
        self.assert_nobody_left()

    def test_a_damaged_checkpoint_is_named_and_the_one_before_used(self):
        text = job(self.folder, 12, 2, checkpoint=", every_steps: 4")
        code, _, err = self.run_job(text, "job")
        self.assertEqual(code, 0, err)
        expected = [r["loss"] for r in self.records("job")]
        shard = self.folder / "job" / "checkpoints" / "step-00000012" / "rank-1.safetensors"
        data = bytearray(shard.read_bytes())
        data[len(data) // 2] ^= 1
        shard.write_bytes(data)
        code, _, err = self.run_job(text, "job", "--resume")
        self.assertEqual(code, 0, err)
        self.assertRegex(err, r"step-00000012.*rank-1\.safetensors.*step-00000008")
        self.assertEqual([r["loss"] for r in self.records("job")], expected)

        before = self.records("job")
        for damaged in (self.folder / "job" / "checkpoints").glob("step-*/rank-0.safetensors"):
            damaged.write_bytes(damaged.read_bytes()[:100])
        code, _, err = self.run_job(text, "job", "--resume")
        self.assertIn(code, (1, 2))
        for step in (4, 8, 12):
            self.assertRegex(err, rf"step-{step:08}.*rank-0\.safetensors")
        self.assertEqual(self.records("job"), before)

    def test_a_job_that_differs_from_its_checkpoint_is_refused(self):
        self.assertEqual(self.run_job(job(self.folder, 2, 1), "job")[0], 0)
        code, _, err = self.run_job(job(self.folder, 4, 1, train=", seed: 7"), "job", "--resume")
        self.assertEqual(code, 2)
        self.assertRegex(err, r"train\.seed: 7, the checkpoint's 1")
        self.assertEqual(self.run_job(job(self.folder, 4, 1), "job", "--resume")[0], 0)
        self.assertEqual(len(self.records("job")), 4)

    # Using what was trained

    def test_text_and_loss_of_a_checkpoint(self):
        self.assertEqual(self.run_job(job(self.folder, 30, 1), "job")[0], 0)
        ask = ("generate", "--from", self.folder / "job", "--prompt", "river", "--tokens", "20")
        first, second = (self.finish(self.start(*ask, "--temperature", "0")) for _ in range(2))
        self.assertEqual(first[0], 0, first[2])
        self.assertEqual(first[1], second[1])
        self.assertTrue(first[1].strip())

        dump = self.folder / "logits.safetensors"
        code, out, err = self.finish(self.start("eval", "--from", self.folder / "job", "--data",
                                                self.folder / "text.txt", "--sequence", "48", "-o", "json",
                                                "--dump-logits", dump))
        self.assertEqual(code, 0, err)
        result = json.loads(out)
        self.assertAlmostEqual(result["perplexity"], math.exp(result["loss"]), places=6)
        windows = ((self.folder / "text.txt").stat().st_size - 1) // 48
        self.assertEqual(result["tokens"], windows * 48)
        with open(dump, "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        self.assertEqual(header["logits"]["shape"], [windows, 48, 256])
        self.assertLess(abs(result["loss"] - self.records("job")[-1]["loss"]), 0.3)

    def test_ranks_that_share_the_layers_say_the_same_as_one(self):
        self.assertEqual(self.run_job(job(self.folder, 10, 1), "job")[0], 0)
        said, measured = [], []
        for ranks in 1, 2:
            dump = self.folder / f"logits-{ranks}"
            code, out, err = self.finish(self.start(
                "generate", "--from", self.folder / "job", "--prompt", "river", "--tokens", "100", "--ranks", ranks,
                "-o", "json"))
            self.assertEqual(code, 0, err)
            said.append(json.loads(out)["text"])
            code, out, err = self.finish(self.start(
                "eval", "--from", self.folder / "job", "--data", self.folder / "text.txt", "--sequence", "48", "-o",
                "json", "--ranks", ranks, "--dump-logits", dump))
            self.assertEqual(code, 0, err)
            measured.append((out, dump.read_bytes()))
        self.assertEqual(said[0], said[1])
        self.assertGreater(len(said[0]), 10)  # its bytes are not always whole characters
        self.assertEqual(measured[0], measured[1])  # bit for bit
        code, _, err = self.finish(self.start("generate", "--from", self.folder / "job", "--prompt", "a", "--ranks", 3))
        self.assertEqual(code, 2)
        self.assertIn("--ranks: 3 ranks cannot share 2 layers", err)

    def test_layers_that_are_streamed_say_the_same(self):
        """Parameters on the host or SSD, brought for their layers: the same text, the same logits."""
        self.assertEqual(self.run_job(job(self.folder, 10, 1), "job")[0], 0)

        def ask(*more):
            dump = self.folder / "logits"
            text = self.finish(self.start("generate", "--from", self.folder / "job", "--prompt", "river", "--tokens", "40",
                                          "-o", "json", *more))
            measured = self.finish(self.start("eval", "--from", self.folder / "job", "--data", self.folder / "text.txt",
                                              "--sequence", "48", "-o", "json", "--dump-logits", dump, *more))
            self.assertEqual((text[0], measured[0]), (0, 0), text[2] + measured[2])
            return json.loads(text[1])["text"], measured[1], dump.read_bytes()

        plain = ask()
        ssd = f"ssd: [{{path: {self.folder}/ssd, size: 16MiB}}]"
        for memory in ("{place: {parameters: host}, stream: {resident: 1}}",
                       f"{{device: 32MiB, {ssd}, place: {{parameters: ssd}}, stream: {{resident: 2, moved: 2}}}}",
                       f"{{device: 32MiB, {ssd}, place: {{parameters: {{device: 0.3, host: 0.4, ssd: 0.3}}}}}}"):
            for ranks in 1, 2:
                self.assertEqual(ask("--memory", memory, "--ranks", ranks), plain, memory)
        for memory, code, says in (("{place: {parameters: ssd}}", 2, "--memory:1:10: memory.place.parameters: "),
                                   ("{device: 4KiB, place: {parameters: host}}", 3, "memory.device: 4096 B are too few")):
            ended = self.finish(self.start("generate", "--from", self.folder / "job", "--prompt", "a", "--memory", memory))
            self.assertEqual(ended[0], code, ended[2])
            self.assertIn(says, ended[2])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
