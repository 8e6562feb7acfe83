"""tests/gpu/run: a pack is small enough, is all that it needs in an empty folder, and every part runs on the stand-in."""

import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, "tests/gpu")
import benchmarks  # noqa: E402
import checks  # noqa: E402
import jobs  # noqa: E402
import kernel_times  # noqa: E402
import machine  # noqa: E402
import packing  # noqa: E402
import report  # noqa: E402

PROGRAMS = [pathlib.Path(path) for path in ("client/strata", "worker/agent/strata-worker", "worker/trainer/strata-trainer",
                                            "worker/trainer/strata-trainer-standin")]
TWIN = pathlib.Path("device/standin/testing/kernels_test_gpu")


class Pack(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="strata-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.archive = cls.folder / "gpu.tar.xz"
        cls.size = packing.pack(cls.archive, PROGRAMS, [TWIN], {"commit": "abc"})
        cls.unpacked = cls.folder / "unpacked"
        with tarfile.open(cls.archive) as archive:
            archive.extractall(cls.unpacked)

    def go(self, *arguments, **env):
        plain = {key: value for key, value in os.environ.items() if not key.startswith("STRATA_")}
        return subprocess.run([sys.executable, "-B", self.unpacked / "run", "go", *arguments], cwd=self.folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=plain | env, timeout=600)

    def test_is_small_enough_and_says_so_when_it_is_not(self):
        self.assertLess(self.size, packing.MOST_BYTES)
        names = {path.name for path in (self.unpacked / "lib").iterdir()}
        self.assertIn("libdnnl.so.2", names)
        self.assertFalse({"libc.so.6", "libcublasLt.so.13", "libcuda.so.1"} & names)
        with mock.patch.object(packing, "MOST_BYTES", 1000), self.assertRaisesRegex(ValueError, "pack fewer tests"):
            packing.pack(self.folder / "again.tar.xz", [], [TWIN], {"commit": "abc"})

    def test_every_part_runs_on_the_standin(self):
        done = self.go("--standin", "--out", str(self.folder / "out"))
        self.assertEqual(done.returncode, 0, done.stdout)
        results = json.loads((self.folder / "out/results.json").read_text())
        self.assertEqual(list(results["parts"]), ["kernels", "models", "training", "ceilings", "calibration", "speed",
                                                   "profile"])
        self.assertEqual(results["about"]["commit"], "abc")
        states = {part: [row["state"] for row in found["rows"]] for part, found in results["parts"].items()}
        self.assertEqual(states["models"], ["passed"])
        self.assertEqual(states["training"], ["passed"])
        self.assertEqual(states["ceilings"], ["left out"])
        speed = results["parts"]["speed"]["rows"]
        self.assertEqual([row["state"] for row in speed if row["side"] == "strata"], ["measured"])
        self.assertGreater(speed[0]["tokens_per_second"], 0)
        self.assertIn("measured", states["calibration"])
        self.assertIn("standin: true", (self.folder / "out/profile.textproto").read_text())
        self.assertGreater(speed[0]["predicted_seconds"], 0)
        self.assertEqual([row["state"] for row in speed[1:]], ["left out", "left out"])
        twin = results["parts"]["kernels"]["rows"][0]
        if machine.gpu()[0] is None:
            self.assertEqual((twin["state"], twin["passed"], twin["failed"]), ("skipped", 0, []))
        text = (self.folder / "out/results.md").read_text()
        self.assertIn("On the stand-in of CUDA", text)
        self.assertTrue(done.stdout.rstrip().endswith("|"), done.stdout)  # a table is last

    def test_without_a_gpu_it_says_what_is_missing(self):
        if machine.gpu()[0] is not None:
            self.skipTest("there is a GPU here")
        done = self.go("--out", str(self.folder / "none"))
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("this machine lacks\n  nvidia-smi", done.stdout)
        self.assertFalse((self.folder / "none").exists())


class Judgement(unittest.TestCase):
    def test_losses_are_compared_in_full(self):
        run = [{"loss": 4.0}, {"loss": 2.0}]
        far = float("inf")
        self.assertEqual(checks.distances(run, run), [0, 0])
        self.assertEqual(checks.distances([{"loss": 4.0}, {"loss": 2.5}], run), [0, 0.25])
        self.assertEqual(checks.distances(run[:1], run), [far])
        self.assertEqual(checks.distances([{"loss": 4.0}, {"loss": float("nan")}], run), [far])
        self.assertEqual(checks.distances([], []), [far])

    def test_times_are_those_of_whole_steps(self):
        lines = []
        for step in range(9):  # of 100 us: a look-up, a product beside a copy, 40 us of nothing
            begin = 1000 + step * 100_000
            lines += [f"kernel {begin} {begin + 10_000} 7 4x1x1*256 void strata::kernels::cuda::EmbeddingForwardKernel<float>(int)",
                      f"kernel {begin + 10_000} {begin + 60_000} 7 2x2x1*128 product", f"copy {begin + 20_000} {begin + 50_000} 8 64 x"]
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("\n".join(lines) + "\nkernel 12")
            file.flush()
            found = kernel_times.of_steps(kernel_times.read(pathlib.Path(file.name)))
        self.assertAlmostEqual(found["step_ms"], 0.1)
        self.assertAlmostEqual(found["busy_ms"], 0.06)
        self.assertEqual([(row["name"], row["count"], round(row["us"])) for row in found["rows"]],
                         [("product 2x2x1*128", 1, 50), ("copy x 64", 1, 30), ("EmbeddingForwardKernel<float> 4x1x1*256", 1, 10)])
        self.assertEqual(kernel_times.of_steps([]), {})

    def twin(self, script: str) -> dict:
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "x_test_gpu")
            program.write_text("#!/bin/sh\n" + script)
            program.chmod(0o755)
            return checks.run_twin(program, dict(os.environ), 10, pathlib.Path(folder))

    def test_a_twin_that_fails_or_does_not_start_has_failed(self):
        self.assertEqual(self.twin("echo no library; exit 127")["failed"], ["all"])
        self.assertEqual(self.twin("echo no library; exit 127")["why"], "no library")
        case = {"classname": "A", "name": "b", "failures": [{"failure": "apart"}]}
        write = f"echo '{json.dumps({'testsuites': [{'testsuite': [case, {'result': 'COMPLETED'}]}]})}' >${{1#--gtest_output=json:}}\n"
        row = self.twin(write + "exit 1")
        self.assertEqual((row["failed"], row["passed"], row["why"]), (["A.b"], 1, "apart"))
        self.assertEqual(self.twin(write.replace("failures", "results") + "exit 3")["failed"], ["all"])

    def test_work_is_counted_as_published(self):
        step = benchmarks.flops(jobs.GPT2_124M, 1, 1024) / 1024
        self.assertAlmostEqual(step / (6 * 124e6 + 6 * 12 * 768 * 1024), 1, delta=0.01)
        self.assertAlmostEqual(benchmarks.flops(jobs.LLAMA_8B, 1, 1) / (6 * 7.5e9), 1, delta=0.01)

    def test_strata_is_measured_as_it_is_without_recompute_and_with_its_own_attention(self):
        context = mock.Mock(standin=False, torch=None, torch_why="none", rate=0)
        with mock.patch.object(benchmarks, "run_strata", return_value=[{"seconds": 1.0}]) as ran:
            rows = benchmarks.one(context, "x", (jobs.TINY, 2, 16, {}, "mixed", []))
        self.assertEqual([row["side"] for row in rows], ["strata", "strata, all values kept", "strata, own attention",
                                                         "torch eager", "torch compiled"])
        self.assertEqual([call.args[0] for call in context.jobs.watched.call_args_list], [{}, {"STRATA_GPU_CUDNN": "0"}])
        self.assertEqual([call.args[-1] for call in ran.call_args_list], [None, benchmarks.ALL_KEPT, {}])

    def test_what_does_not_fit_has_not_failed(self):
        self.assertEqual(benchmarks.state_of("CUDA out of memory. Tried"), "does not fit")
        self.assertEqual(benchmarks.state_of("loss is NaN"), "failed")

    def test_cells_of_tables_stay_cells(self):
        self.assertEqual(report.table(["a", "b"], [("x|y", None), ("1\n2", 0)]), "| a | b |\n|---|---|\n| x/y |  |\n| 1 2 | 0 |")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
