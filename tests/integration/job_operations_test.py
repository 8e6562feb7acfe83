"""What users do to jobs that are there, with real processes: selections, updates, pauses, time limits, cancellations, events,
logs, deletion; and that the numbers of a job do not know of any of it."""

import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_cluster

EVERY = 20  # steps between checkpoints


class JobOperationsTest(real_cluster.RealCluster):
    def job(self, name: str, steps: int, ranks: int = 2, **keys) -> pathlib.Path:
        path = self.folder / f"{name}.yaml"
        path.write_text(f"""
model: {{family: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 128, vocab: 256}}
data: {{train: [{{path: {self.folder}/text.txt}}]}}
train: {{steps: {steps}, sequence: 32, global_batch: 4, micro_batch: 1, schedule: {{name: constant, warmup_steps: 5}}}}
parallel: {{data: {ranks}, shard: zero1, virtual_shards: 4}}
checkpoint: {{every_steps: {EVERY}}}
{chr(10).join(f"{key}: {json.dumps(value) if isinstance(value, dict) else value}" for key, value in keys.items())}
""")
        return path

    def wait_for_state(self, name: str, state: str) -> dict:
        return self.wait_for(lambda: (job := self.get(name))["state"] == state and job, f"{name} {state}")

    def names(self, *arguments) -> list:
        return self.strata("get", "jobs", "-o", "name", *arguments).stdout.split()

    def events(self, name: str) -> list:
        return json.loads(self.strata("events", name, "-o", "json").stdout)

    def train_past(self, name: str, step: int):
        self.strata("wait", name, f"--for=step={step}")

    def test_a_job_is_changed_paused_and_goes_on_with_the_same_numbers(self):
        self.strata("up", "--agents", "2", "--dir", self.cluster)
        self.strata("submit", self.job("a", 5000, labels={"team": "nlp"}))
        self.strata("submit", self.job("b", 5000, labels={"team": "vision"}))
        self.assertEqual(self.names("-l", "team=nlp"), ["a"])
        self.assertEqual(self.names("--filter", "state = QUEUED"), ["b"])
        self.assertEqual(self.names("--order-by", "create_time desc"), ["b", "a"])

        self.train_past("a", EVERY + 5)
        self.strata("update", "a", "--priority", "3", "--label", "run=7", "--ttl", "100h")
        job = self.get("a")
        self.assertEqual((job["labels"], job["priority"], job["attempt"]), ({"run": "7", "team": "nlp"}, 3, 1))
        self.strata("update", "b", "--queue", "none-such", code=2)
        self.strata("update", "a", "--steps", "1", code=1)

        self.strata("suspend", "a")
        self.wait_for(lambda: (now := self.get("a"))["state"] == "QUEUED" and now, "a's ranks are gone")
        self.wait_for_state("b", "RUNNING")  # it has the devices meanwhile
        self.strata("cancel", "b", "--now", "--reason", "in the way")
        self.assertIn("cancelled (in the way) at once", self.wait_for_state("b", "CANCELLED")["reason"])
        self.strata("resume", "job", "a")
        self.wait_for_state("a", "RUNNING")
        paused = self.get("a")
        self.assertEqual((paused["attempt"], paused["events"][0]["cause"], paused["events"][0]["lost_steps"]),
                         (2, "suspended", 0))

        last = paused["step"] + 1500
        self.strata("update", "a", "--steps", last)
        self.strata("wait", "a", "--for=state=SUCCEEDED")
        done = self.get("a")
        self.assertEqual((done["step"], done["attempt"], done["checkpoint_step"]), (last, 3, last))
        records = self.records(done["directory"])
        self.assertEqual([r["step"] for r in records], list(range(1, last + 1)))
        self.assertEqual({r["attempt"] for r in records}, {1, 2, 3})
        self.strata("run", self.job("reference", last, ranks=1), "--dir", self.folder / "reference")
        self.assertEqual(self.numbers(done["directory"]), self.numbers(self.folder / "reference"))

        types = [event["type"] for event in self.events("a")]
        for expected in ("CREATED", "STARTED", "RUNNING", "CHECKPOINT", "UPDATED", "SUSPENDED", "STOPPED", "RESUMED", "END"):
            self.assertIn(expected, types)
        self.assertEqual((types[0], types[-1]), ("CREATED", "END"))
        self.assertIn("END  attempt 3", self.strata("describe", "job", "a").stdout)
        self.strata("delete", "job", "a")
        self.strata("get", "job", "a", code=5)
        self.assertTrue(pathlib.Path(done["directory"]).is_dir(), "its files stay")
        self.down()

    def test_time_limits_selections_and_deletion_by_force(self):
        self.strata("up", "--agents", "2", "--dir", self.cluster)
        self.strata("submit", self.job("short", 1_000_000, time_limit="4s"))
        ended = self.wait_for_state("short", "FAILED")
        self.assertEqual(ended["events"][-1]["cause"], "time_limit")
        self.assertIn("out of time (time_limit 4s)", ended["reason"])
        self.assertGreater(ended["checkpoint_step"], 0)
        self.assertGreaterEqual(ended["run_seconds"], 4)

        for name in ("x", "y", "z"):
            self.strata("submit", self.job(name, 1_000_000, labels={"sweep": "one" if name != "z" else "two"}))
        told = self.strata("cancel", "-l", "sweep=one", "--dry-run").stderr
        self.assertIn("job x would be cancelled", told)
        self.assertIn("job y would be cancelled", told)
        self.assertEqual(self.names("--filter", "state = CANCELLED"), [])
        self.strata("cancel", "-l", "sweep=one", "--grace", "20s")
        for name in ("x", "y"):
            self.wait_for_state(name, "CANCELLED")
        self.assertEqual(self.names("-l", "sweep=one", "--filter", "state = CANCELLED"), ["x", "y"])

        self.wait_for_state("z", "RUNNING")
        self.strata("delete", "job", "z", code=1)
        self.strata("delete", "job", "z", "--force")
        self.wait_for(lambda: "z" not in self.names(), "that z is gone")
        self.strata("submit", self.job("z", 50), "--dir", self.folder / "another-z")  # the name is free again
        self.assertEqual(self.get("z")["attempt"] in (0, 1), True)

        self.strata("drain", "n0", "--reason", "new disk")
        self.assertIn("new disk", self.strata("describe", "node", "n0").stdout)
        self.strata("resume", "n0")
        self.assertNotIn("new disk", self.strata("describe", "node", "n0").stdout)
        self.strata("delete", "node", "n0", code=1)
        self.assertEqual(len(self.strata("logs", "short", "--tail", "1").stdout.splitlines()) <= 1, True)
        self.down()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
