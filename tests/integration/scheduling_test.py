"""Real processes whose ranks the scheduler stops, moves and takes away: whatever it does, a job's numbers are those of
an undisturbed run, bit by bit."""

import os
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_cluster

STEPS, EVERY = 300, 20


class SchedulingTest(real_cluster.RealCluster):
    def job(self, name: str, ranks: int, priority: int = 0, steps: int = STEPS) -> pathlib.Path:
        path = self.folder / f"{name}.yaml"
        path.write_text(f"""
model: {{family: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 128, vocab: 256}}
data: {{train: [{{path: {self.folder}/text.txt}}]}}
train: {{steps: {steps}, sequence: 64, global_batch: 8, micro_batch: 1, schedule: {{warmup_steps: 5}}}}
parallel: {{data: {ranks}, shard: zero1}}
resources: {{priority: {priority}}}
checkpoint: {{every_steps: {EVERY}}}
""")
        return path

    def up(self, agents: int, *flags):
        self.strata("up", "--agents", agents, "--dir", self.cluster, *flags)
        policy = self.folder / "policy.yaml"
        policy.write_text("scheduling: {min_run_seconds: 0, shrink_after_seconds: 1}\n")
        self.strata("apply", policy)

    def begin(self, ranks: int) -> str:
        """A job that has trained for a while; the folder of what it writes."""
        self.strata("run", self.job("low", ranks), "--dir", self.folder / "reference")
        self.strata("submit", self.job("low", ranks))
        directory = self.get("low")["directory"]
        self.wait_for(lambda: len(self.records(directory)) > EVERY, "some steps")
        return directory

    def end_as_undisturbed(self, directory: str):
        self.strata("wait", "low", "--for=state=SUCCEEDED")
        self.assertGreater(self.get("low")["epoch"], 1)
        self.assertEqual(self.numbers(directory), self.numbers(self.folder / "reference"))
        self.down()

    def test_a_preempted_job_makes_room_and_goes_on_where_it_was(self):
        self.up(1)
        directory = self.begin(1)
        self.strata("submit", self.job("urgent", 1, priority=5, steps=30))
        self.wait_for(lambda: self.get("low")["state"] == "QUEUED", "the job is preempted")
        self.assertIn("preempted by urgent (priority 5 over 0) at step", self.get("low")["reason"])
        self.strata("wait", "urgent", "--for=state=SUCCEEDED")
        self.end_as_undisturbed(directory)

    def test_a_job_moves_off_a_drained_node(self):
        self.up(2)
        directory = self.begin(1)
        self.strata("drain", "n0")
        self.wait_for(lambda: self.get("low")["epoch"] == 2, "another epoch")
        self.assertIn("Epoch 2 of its ranks is on n1", self.strata("explain", "low").stdout)
        self.end_as_undisturbed(directory)

    def test_a_job_that_lost_a_node_goes_on_with_fewer_ranks_and_the_same_numbers(self):
        self.up(2, "--no-restart", "n1")
        directory = self.begin(2)
        for pid in self.of_node("n1"):
            os.kill(pid, signal.SIGKILL)
        self.end_as_undisturbed(directory)

    def of_node(self, node: str) -> list:
        """The agent of a node and its trainers."""
        agents = [pid for pid in self.processes("strata-worker") if f"/nodes/{node}" in self.command(pid)]
        trainers = [pid for pid in self.processes("strata-trainer") if self.parent(pid) in agents]
        self.assertEqual((len(agents), len(trainers)), (1, 1))
        return agents + trainers

    @staticmethod
    def command(pid: int) -> str:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")

    @staticmethod
    def parent(pid: int) -> int:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
