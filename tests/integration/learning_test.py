"""What steps took on a calibrated node, learned by a real controller, corrects the next plan of the same family."""

import json
import os
import socket
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_cluster

STEPS = 20  # the controller learns from 16, after the first


class LearningTest(real_cluster.RealCluster):
    def job(self, name: str, parallel: str):
        path = self.folder / f"{name}.yaml"
        path.write_text(f"""
name: {name}
model: {{family: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 128, vocab: 256}}
data: {{train: [{{path: {self.folder}/text.txt}}]}}
train: {{steps: {STEPS}, sequence: 64, global_batch: 4, micro_batch: 1}}
parallel: {parallel}
resources: {{ranks: 1}}
""")
        return path

    def plan(self, path) -> dict:
        return json.loads(self.strata("plan", path, "-o", "json").stdout)["plans"][0]

    def test_what_nodes_hold_decides_what_auto_may_be(self):
        self.strata("up", "--dir", self.cluster, "--agents", 2)
        nodes = json.loads(self.strata("get", "nodes", "-o", "json").stdout)
        self.assertEqual(len(nodes), 2)
        for node in nodes:
            self.assertGreater(node["host_memory_bytes"], 1 << 28)
            self.assertLessEqual(node["host_memory_bytes"], os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
            self.assertIsNone(node["device_memory_bytes"])
        path = self.job("large", "auto")
        path.write_text(path.read_text().replace("layers: 2, hidden: 64, heads: 4, kv_heads: 2", "layers: 64, hidden: 32768, heads: 128"))
        refused = self.strata("submit", path, code=3)
        self.assertRegex(refused.stderr, r"large.yaml:\d+:\d+: parallel: of \d+ layouts none fits the cluster's nodes; "
                         r"with the least .* needs .* of the host's memory, and n\d has .* for each rank")
        self.assertEqual(json.loads(self.strata("get", "jobs", "-o", "json").stdout), [])
        self.down()

    def test_places_left_open_are_chosen_within_limits_and_change_no_bit(self):
        path = self.job("places", "{data: 1}")
        small = "layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 128, vocab: 256"
        text = path.read_text().replace(small, "layers: 4, hidden: 512, heads: 4, ffn: 1376, vocab: 2048")
        text = text.replace(f"steps: {STEPS}", "steps: 2")
        losses = {}
        for name, memory in (("device", ""), ("host", "memory: {device: 150MiB, place: auto}\n"),
                             ("ssd", "memory: {device: 150MiB, host: 120MiB, place: auto, "
                                     f"ssd: [{{path: {self.folder}/disk, size: 1GiB}}]}}\n")):
            path.write_text(text + memory)
            said = self.strata("run", path, "--dir", self.folder / name).stderr
            if memory:
                self.assertRegex(said, f"auto: .*optimizer on {name}")
            records = self.records(self.folder / name)
            losses[name] = [record["loss"] for record in records]
            if memory:
                tiers = records[-1]["memory"]
                self.assertLessEqual(tiers["device"]["arena_bytes"], 150 << 20)
                self.assertGreater(tiers[name]["arena_bytes"], 100 << 20)
        self.assertEqual(losses["host"], losses["device"])
        self.assertEqual(losses["ssd"], losses["device"])

        self.strata("up", "--dir", self.cluster, "--agents", 1)
        path.write_text(text + "memory: {device: 150MiB, place: auto}\n")
        self.assertRegex(self.strata("submit", path).stderr, "auto: .*optimizer on host")
        self.strata("wait", "places", "--for=state=SUCCEEDED")
        self.assertEqual([record["loss"] for record in self.records(self.get("places")["directory"])], losses["device"])
        self.down()

    def test_what_steps_took_corrects_the_next_plan(self):
        self.strata("up", "--dir", self.cluster, "--agents", 1)
        [agent] = self.cluster.glob("nodes/*")
        profile = agent / "profiles" / f"{socket.gethostname()}.textproto"
        self.strata("calibrate", "--quick", "--profile", profile)
        path = self.job("first", "{data: 1}")
        self.assertNotIn("correction", self.plan(path))
        self.strata("submit", path)
        self.strata("wait", "first", "--for=state=SUCCEEDED")
        records = self.records(self.get("first")["directory"])
        predicted = {record.get("predicted_seconds") for record in records}
        self.assertEqual(len(predicted), 1)
        self.assertIsNotNone(predicted.pop())

        for restarted in (False, True):
            if restarted:  # it is durable
                self.down()
                self.strata("up", "--dir", self.cluster, "--agents", 1)
            correction = self.plan(path)["correction"]
            self.assertEqual(correction["of"], "layout")
            self.assertEqual(correction["steps"], 16)
            ratios = sorted(r["seconds"] / r["predicted_seconds"] for r in records[1:17])
            self.assertAlmostEqual(correction["ratio"], ratios[8], delta=1e-6 * ratios[8])
        [family] = json.loads(self.strata("get", "plan-families", "-o", "json").stdout)
        self.assertAlmostEqual(family["ratio"], correction["ratio"], delta=1e-9)
        said = self.strata("submit", self.job("second", "auto")).stderr
        self.assertIn("the predicted time, as 16 steps of this layout took", said)
        self.strata("wait", "second", "--for=state=SUCCEEDED")
        self.down()

    def test_what_a_run_without_a_cluster_took_corrects_the_next_plan_here(self):
        profile = self.folder / "own" / "host.textproto"
        self.strata("calibrate", "--quick", "--profile", profile)
        path = self.job("alone", "{data: 1}")
        plan = ["plan", path, "--profile", profile, "-o", "json"]
        self.assertNotIn("correction", json.loads(self.strata(*plan).stdout)["plans"][0])
        directory = self.folder / "alone"
        self.strata("run", path, "--profile", profile, "--dir", directory)
        records = self.records(directory)
        ratios = sorted(r["seconds"] / r["predicted_seconds"] for r in records[1:17])
        correction = json.loads(self.strata(*plan).stdout)["plans"][0]["correction"]
        self.assertEqual((correction["of"], correction["steps"]), ("layout", 16))
        self.assertAlmostEqual(correction["ratio"], ratios[8], delta=1e-6 * ratios[8])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
