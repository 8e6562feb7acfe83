"""`strata calibrate` and what runs make of its profile: steps that are predicted, or why they are not."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_processes


class CalibrateTest(real_processes.RealProcesses):
    def strata(self, *arguments) -> subprocess.CompletedProcess:
        return subprocess.run([self.folder / "bin" / "strata", *map(str, arguments)], env=self.env, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, cwd=self.folder,
                              timeout=real_processes.WAIT_SECONDS)

    def run_job(self, name: str, *arguments, parallel: str = "data: 2, shard: zero1"):
        path = self.folder / "job.yaml"
        path.write_text(f"""
model: {{family: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 128, vocab: 256}}
data: {{train: [{{path: {self.folder}/text.txt}}]}}
train: {{steps: 3, sequence: 64, global_batch: 4, micro_batch: 1}}
parallel: {{{parallel}}}
""")
        return self.strata("run", path, "--dir", self.folder / name, *arguments)

    def records(self, name: str) -> list:
        return [json.loads(line) for line in (self.folder / name / "metrics.jsonl").read_text().splitlines()]

    def test_a_machine_that_has_something_else_to_do_is_told(self):
        other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            done = self.strata("calibrate", "--quick")
        finally:
            other.kill()
            other.wait()
        self.assertEqual(done.returncode, 0, done.stderr)
        if len(os.sched_getaffinity(0)) == os.cpu_count():
            self.assertIn("other processes used", done.stderr)

    def test_a_calibrated_machine_predicts_its_steps(self):
        done = self.run_job("before")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("predicted_seconds", self.records("before")[0])
        self.assertNotIn("predicted", done.stderr)

        done = self.strata("calibrate", "--quick", "--ssd", self.folder, "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        profile = pathlib.Path(found["profile"])
        self.assertEqual(profile.parent, self.folder / ".config/strata/profiles")
        self.assertEqual([ranks["ranks"] for ranks in found["ranks"]], [1, 2])
        self.assertGreater(found["ranks"][1]["link_bytes_per_second"], 0)
        self.assertIn("measuring two ranks", done.stderr)
        self.assertGreater(found["host_copy_bytes_per_second"], 0)
        self.assertEqual([disk["directory"] for disk in found["disks"]], [str(self.folder)])
        for rate in found["disks"][0]["rates"]:
            self.assertGreater(rate["mixed_bytes_per_second"], 0)
        done = self.strata("doctor", "--quick")
        self.assertIn(f"disk {self.folder}", done.stdout)

        for name, parallel in {"one": "data: 1", "zero1": "data: 2, shard: zero1", "zero3": "data: 2, shard: zero3",
                               "tensor": "tensor: 2", "pipeline": "pipeline: 2", "context": "context: 2"}.items():
            with self.subTest(name):
                done = self.run_job(name, parallel=parallel)
                self.assertEqual(done.returncode, 0, done.stderr)
                records = self.records(name)
                predicted = {record["predicted_seconds"] for record in records}
                self.assertEqual(len(predicted), 1)  # fixed before the first step
                parts = [purpose["predicted"] for purpose in records[0]["purposes"].values() if "predicted" in purpose]
                accounted = sum(part["compute_seconds"] + part["exposed_seconds"] for part in parts)
                step = predicted.pop()
                self.assertGreater(accounted, 0)
                self.assertLess(accounted, step * 1.001)  # of rank 0; another may take longer
                forward = records[0]["purposes"]["forward"]
                self.assertGreater(forward["predicted"]["compute_seconds"], 0)
                self.assertGreater(forward["compute_seconds"], 0)

        self.says_why_where_it_does_not_hold(profile)

    def says_why_where_it_does_not_hold(self, profile: pathlib.Path):
        elsewhere = self.folder / "elsewhere.textproto"
        host = json.dumps(profile.stem)
        text = profile.read_text()
        self.assertIn(f"host: {host}", text)
        elsewhere.write_text(text.replace(f"host: {host}", 'host: "elsewhere"'))
        done = self.run_job("elsewhere", "--profile", elsewhere)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("steps are not predicted: the profile is of host elsewhere"), 1, done.stderr)
        self.assertNotIn("predicted_seconds", self.records("elsewhere")[0])

        done = self.run_job("four", parallel="data: 4")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no measurement of 4 ranks", done.stderr)

    def test_a_damaged_profile_is_refused_with_its_place(self):
        damaged = self.folder / "damaged.textproto"
        damaged.write_text('host: "a"\nranks { ranks: 1 threads: x }\n')
        done = self.run_job("job", "--profile", damaged)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(f"{damaged}:2:27: ", done.stderr)
        self.assertIn("strata calibrate", done.stderr)

        done = self.run_job("job", "--profile", self.folder / "nowhere")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("nowhere", done.stderr)

    def test_a_disk_that_is_not_there_is_an_error(self):
        done = self.strata("calibrate", "--quick", "--ssd", self.folder / "nowhere")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("nowhere", done.stderr)

    def test_a_profile_that_cannot_be_written_is_an_error(self):
        done = self.strata("calibrate", "--quick", "--profile", self.folder / "text.txt" / "profile")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("text.txt", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
