"""The scheduler with real processes, on a cluster of `strata up --topology`: zones, spare nodes, preemption, quotas and
drained nodes, fewer ranks; every job ends with the numbers of `strata run`, through the death of nodes and of the controller."""

import contextlib
import json
import os
import pathlib
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_cluster

STEPS, EVERY = 800, 20
ZONES = {"n0": "a", "n1": "b", "n2": "a", "n3": "b"}  # who is next by name is not next on the map
LEASE_SECONDS = 30


class SchedulerTest(real_cluster.RealCluster):
    expected: list = []  # numbers of the job in a terminal; the same for all tests

    def setUp(self):
        super().setUp()
        self.map = self.folder / "map.yaml"
        nodes = [f"  - {{name: {node}, at: {{zone: {zone}}}, device: cpu, devices: 1}}\n" for node, zone in ZONES.items()]
        self.map.write_text("levels: [zone, domain]\nnodes:\n" + "".join(nodes))

    def up(self, *more):
        self.strata("up", "--topology", self.map, "--dir", self.cluster, *more)

    def apply(self, text: str):
        path = self.folder / "policy.yaml"
        path.write_text(text)
        return self.strata("apply", path)

    def job(self, name: str, ranks: int, project: str = "default", **resources) -> pathlib.Path:
        """Jobs differ in nothing that their numbers depend on."""
        path = self.folder / f"{name}.yaml"
        path.write_text(f"""
project: {project}
model: {{family: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 128, vocab: 256}}
data: {{train: [{{path: {self.folder}/text.txt}}]}}
train: {{steps: {STEPS}, sequence: 64, global_batch: 8, micro_batch: 1, schedule: {{warmup_steps: 5}}}}
parallel: {{data: {ranks}, shard: zero1, virtual_shards: 4}}
resources: {json.dumps(resources)}
checkpoint: {{every_steps: {EVERY}}}
""")
        return path

    def submit(self, *arguments, **keys):
        self.strata("submit", self.job(*arguments, **keys))

    def assert_same_numbers(self, name: str):
        if not self.expected:
            self.strata("run", self.job("reference", 1), "--dir", self.folder / "reference")
            SchedulerTest.expected = self.numbers(self.folder / "reference")
            self.assertEqual(len(self.expected), STEPS)
        self.assertEqual(self.numbers(self.get(name)["directory"]), self.expected, name)

    def steps(self, name: str) -> int:
        return len(self.records(self.get(name)["directory"]))

    def nodes_of(self, name: str) -> list:
        """By rank."""
        return [rank["node"] for rank in sorted(self.get(name)["ranks"], key=lambda rank: rank["rank"])]

    def wait_for_state(self, name: str, state: str):
        return self.wait_for(lambda: (job := self.get(name))["state"] == state and job, f"{name} {state}")

    def kill_node(self, node: str):
        """The whole of it at once: nobody is left to tell of the end."""
        agent = json.loads((self.cluster / "processes.json").read_text())["processes"][node]["pid"]
        os.kill(agent, signal.SIGSTOP)
        for pid in self.processes("strata-trainer"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it may end meanwhile
                parent = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
                if parent == agent:
                    os.kill(pid, signal.SIGKILL)
        os.kill(agent, signal.SIGKILL)

    def kill_controller(self):
        before = self.processes("strata-controller")
        os.kill(before[0], signal.SIGKILL)
        self.wait_for(lambda: set(self.processes("strata-controller")) - set(before), "another controller")
        self.wait_for(self.answers, "that it answers")

    def test_a_job_stays_in_one_zone_and_a_spare_node_takes_over(self):
        self.up(*(word for node in ZONES for word in ("--no-restart", node)))
        path = self.job("job", 2, spares=1)
        planned = json.loads(self.strata("place", "--topology", self.map, "--job", path, "-o", "json").stdout)
        self.strata("submit", path)
        self.wait_for(lambda: self.steps("job") > EVERY, "a checkpoint's steps")
        before = self.nodes_of("job")
        self.assertEqual(len({ZONES[node] for node in before}), 1, before)
        self.assertEqual(before, [rank["node"] for rank in planned["ranks"]])
        explained = self.strata("explain", "job").stdout
        for word in (*before, f"zone {ZONES[before[0]]}"):
            self.assertIn(word, explained)

        self.kill_node(before[1])
        began = time.monotonic()
        self.wait_for(lambda: self.get("job")["epoch"] == 2, "the next epoch")
        self.assertLess(time.monotonic() - began, LEASE_SECONDS, "its death is no matter of the lease")
        after = self.nodes_of("job")
        self.assertEqual(after[0], before[0])
        self.assertNotIn(before[1], after)
        self.strata("wait", "job", "--for=state=SUCCEEDED")
        self.assertEqual(self.get("job")["epoch"], 2)
        self.assert_same_numbers("job")
        self.down()

    def test_the_higher_priority_wins_and_the_victim_loses_nothing(self):
        self.up()
        self.apply("scheduling: {min_run_seconds: 0}\n")
        self.submit("low", 4)
        self.wait_for(lambda: self.steps("low") > EVERY, "a checkpoint's steps")
        self.submit("high", 4, priority=5)
        self.wait_for_state("high", "RUNNING")
        for _ in range(2):
            victim = self.wait_for_state("low", "QUEUED")
            self.assertEqual(victim["epoch"], 1)
            self.assertIn("preempted by high", victim["reason"])
            self.kill_controller()
        self.strata("wait", "high", "--for=state=SUCCEEDED")
        self.strata("wait", "low", "--for=state=SUCCEEDED")
        low = self.get("low")
        self.assertEqual((low["epoch"], low["restarts_without_progress"]), (2, 0))
        self.assertEqual([(e["cause"], e["lost_steps"]) for e in low["events"] if e["epoch"] == 1], [("preempted", 0)])
        self.assertEqual(self.get("high")["epoch"], 1)
        for name in ("low", "high"):
            self.assert_same_numbers(name)
        self.down()

    def test_a_quota_holds_and_a_drained_node_is_left(self):
        self.up()
        self.strata("submit", self.job("first", 2, project="nlp"), code=2)
        applied = self.apply("projects: [{name: nlp, quota: {cpu: 2}}]\n").stdout
        self.assertIn("project/nlp created", applied)
        self.submit("first", 2, project="nlp")
        self.submit("second", 2, project="nlp")
        self.wait_for(lambda: self.steps("first") > EVERY, "a checkpoint's steps")
        self.kill_controller()
        self.wait_for(lambda: "over quota of project nlp" in self.get("second")["reason"], "that reason")
        self.assertEqual(self.get("second")["state"], "QUEUED")
        self.assertIn("cpu 2/2", self.strata("get", "project", "nlp").stdout)
        self.strata("apply", self.empty_policy(), code=1)  # it has jobs

        self.assertEqual(self.get("first")["state"], "RUNNING")
        left = self.nodes_of("first")[0]
        self.strata("drain", left, "--wait", "--timeout", 60)
        self.kill_controller()
        self.wait_for(lambda: self.get("first")["epoch"] > 1, "the next epoch")
        self.assertNotIn(left, self.nodes_of("first"))
        self.assertIn("READY,DRAINED", self.wait_for_node(left))
        self.strata("wait", "first", "--for=state=SUCCEEDED")
        first = self.get("first")
        self.assertEqual((first["epoch"], first["events"][0]["lost_steps"]), (2, 0), first["events"])
        self.strata("wait", "second", "--for=state=SUCCEEDED")
        self.assertNotIn(left, self.nodes_of("second"))
        for name in ("first", "second"):
            self.assert_same_numbers(name)
        self.strata("resume", left)
        self.assertNotIn("DRAINED", self.strata("get", "nodes").stdout)
        self.strata("apply", self.empty_policy())
        self.down()

    def test_a_job_that_lost_a_node_for_good_goes_on_with_fewer_ranks(self):
        self.up(*(word for node in ZONES for word in ("--no-restart", node)))
        self.apply("scheduling: {shrink_after_seconds: 1}\n")
        self.submit("job", 4)
        self.wait_for(lambda: self.steps("job") > EVERY, "a checkpoint's steps")
        self.kill_node("n3")
        self.strata("wait", "job", "--for=state=SUCCEEDED")
        self.assertEqual(self.get("job")["epoch"], 2)
        self.assertEqual(len(self.nodes_of("job")), 2)
        self.assert_same_numbers("job")
        self.down()

    def empty_policy(self) -> pathlib.Path:
        path = self.folder / "empty.yaml"
        path.write_text("")
        return path

    def wait_for_node(self, node: str) -> str:
        """Its line, once its agent has found the new controller."""
        return self.wait_for(lambda: (line := self.strata("get", "node", node).stdout) and "READY" in line and line,
                             f"{node} READY")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
