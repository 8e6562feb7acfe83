"""Real processes of `strata up`: a job on a local cluster ends by itself, with the numbers of `strata run`, whatever
is killed meanwhile; and nothing is left after `strata down`."""

import json
import os
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_cluster

STEPS, EVERY = 400, 20


class ClusterTest(real_cluster.RealCluster):
    def up(self):
        self.strata("up", "--agents", 2, "--dir", self.cluster)

    def job(self, name: str) -> pathlib.Path:
        path = self.folder / f"{name}.yaml"
        path.write_text(f"""
model: {{family: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 128, vocab: 256}}
data: {{train: [{{path: {self.folder}/text.txt}}]}}
train: {{steps: {STEPS}, sequence: 64, global_batch: 8, micro_batch: 1, schedule: {{warmup_steps: 5}}}}
parallel: {{data: 2, shard: zero1}}
checkpoint: {{every_steps: {EVERY}}}
""")
        return path

    def test_a_job_survives_every_kill_with_the_numbers_of_a_run_in_the_terminal(self):
        self.strata("run", self.job("job"), "--dir", self.folder / "reference")
        self.up()
        self.strata("submit", self.job("job"))
        directory = self.get("job")["directory"]
        for count, binary in enumerate(("strata-trainer", "strata-worker", "strata-controller"), 1):
            passed = count * 3 * EVERY
            self.wait_for(lambda: len(self.records(directory)) > passed, f"step {passed}")
            before = self.processes(binary)
            os.kill(before[0], signal.SIGKILL)
            self.wait_for(lambda: set(self.processes(binary)) - set(before), f"another {binary}")
        self.wait_for(self.answers, "the controller serves again")
        self.strata("wait", "job", "--for=state=SUCCEEDED")
        ended = self.get("job")
        self.assertEqual((ended["state"], ended["step"], ended["epoch"]), ("SUCCEEDED", STEPS, 2))
        self.assertEqual(self.numbers(directory), self.numbers(self.folder / "reference"))
        self.down()

    def test_a_job_goes_on_after_down_and_up(self):
        self.up()
        self.strata("submit", self.job("job"))
        directory = self.get("job")["directory"]
        self.wait_for(lambda: len(self.records(directory)) > 2 * EVERY, "two checkpoints' steps")
        self.down()
        self.assertLess(len(self.records(directory)), STEPS)
        self.up()
        self.assertEqual([n["name"] for n in json.loads(self.strata("get", "nodes", "-o", "json").stdout)], ["n0", "n1"])
        attached = self.strata("watch", "job")
        self.assertIn("SUCCEEDED", attached.stderr)
        self.assertEqual([r["step"] for r in self.records(directory)], list(range(1, STEPS + 1)))
        self.down()

    def test_a_cancelled_job_ends_and_its_name_is_known(self):
        self.up()
        self.strata("submit", self.job("job"))
        directory = self.get("job")["directory"]
        self.wait_for(lambda: len(self.records(directory)) > 2, "two steps")
        self.strata("cancel", "job")
        self.strata("wait", "job", "--for=state=CANCELLED")
        self.strata("wait", "job", "--for=state=SUCCEEDED", code=1)
        self.strata("get", "job", "nobody", code=5)
        self.down()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
