"""`strata calibrate --device gpu` by real processes on the stand-in of CUDA, and what jobs on the device make of its profile.

On a machine with a GPU the same runs there, as gpu_standin_test.py does."""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gpu_standin_test import REAL, GpuJobs

ON_HOST = ["memory.place.parameters=host", "memory.stream=auto", "model.layers=4"]


class GpuCalibrate(GpuJobs):
    def calibrate(self, *arguments):
        """What it says in JSON, and the rest."""
        done = self.strata("calibrate", "--quick", "-o", "json", *arguments)
        self.assertEqual(done.returncode, 0, done.stdout)
        begin = done.stdout.index("{\n")
        return json.loads(done.stdout[begin:]), done.stdout[:begin]

    def run_one(self, device, folder, *sets):
        done, records = self.run_job(device, "train.steps=2", "evaluate.every_steps=0", *sets, folder=folder)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout, records

    def test_a_calibrated_device_predicts_its_steps_beside_the_processors(self):
        told, records = self.run_one("gpu", "before")
        self.assertNotIn("predicted_seconds", records[0])

        found, told = self.calibrate("--device", "gpu")
        device, = found["devices"]
        self.assertEqual((found["ranks"], device["standin"]), ([], not REAL))
        self.assertIn("measuring steps on the device", told)
        for rate in ("flops", "memory_bytes", "to_device_bytes", "from_device_bytes", "both_ways_bytes"):
            self.assertGreater(device[f"{rate}_per_second"], 0, rate)
        self.assertEqual("measuring two devices" in told, device["link_bytes_per_second"] is not None)
        self.assertEqual("one device is here" in told, device["link_bytes_per_second"] is None)

        told, records = self.run_one("gpu", "after")
        self.assertEqual(len({record["predicted_seconds"] for record in records}), 1)
        self.assertGreater(records[0]["predicted_seconds"], 0)
        self.assertIn("steps are predicted by the profile of ", told)
        self.assertEqual("times mean nothing" in told, not REAL)
        told, _ = self.run_one("gpu", "streamed", *ON_HOST)
        self.assertRegex(told, r"memory.stream: auto is .* by the profile of th")

        # Of the processor nothing is known yet, and then of both.
        told, records = self.run_one("cpu", "of-processor")
        self.assertNotIn("predicted_seconds", records[0])
        found, _ = self.calibrate()
        self.assertEqual([ranks["ranks"] for ranks in found["ranks"]], [1, 2])
        for device in ("cpu", "gpu"):
            _, records = self.run_one(device, f"{device}-of-both")
            self.assertGreater(records[0]["predicted_seconds"], 0, device)

        if not REAL:
            self.never_answers_for_a_card(found["profile"])
            self.predicts_layouts()

    def never_answers_for_a_card(self, path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertIn("standin: true", text)
        card = self.folder / "card.textproto"
        card.write_text(text.replace("standin: true", ""))
        done, records = self.run_job("gpu", "train.steps=1", folder="of-a-card", more=["--profile", card])
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("steps are not predicted: the profile has no measurement of the stand-in of CUDA", done.stdout)
        self.assertNotIn("predicted_seconds", records[0])

    def predicts_layouts(self):
        done = self.strata("plan", "job.yaml", "--set", "resources.device=gpu", "--devices", "2", "-o", "json")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("the profile of the stand-in of CUDA, whose times mean nothing", done.stdout)
        plans = json.loads(done.stdout[done.stdout.index("{\n"):])["plans"]
        self.assertTrue(all(plan["seconds"] > 0 for plan in plans))

    @unittest.skipIf(REAL, "here nothing is missing")
    def test_without_a_trainer_for_gpus_it_says_what_is_missing(self):
        del self.env["STRATA_GPU_STANDIN"]
        done = self.strata("calibrate", "--device", "gpu", "--quick")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("strata-trainer-gpu: No such file or directory", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
