"""Jobs on a cluster of real processes whose bytes live on the device, the host and SSD: killed again and again in the
middle of steps they go on bit by bit as an undisturbed run in plain memory, and leave nothing on the disk.

TIERS_KILLS=50 kills that often (default: 2)."""

import contextlib
import os
import pathlib
import random
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_cluster

KILLS, EVERY = int(os.environ.get("TIERS_KILLS", 2)), 10
STEPS = 150 + 60 * KILLS
real_cluster.WAIT_SECONDS += 30 * (KILLS - 2)  # for jobs as much longer
TRAIN = {
    "wide": "precision: f32",
    "narrow": "precision: bf16, optimizer: {master: split, state: 8bit}",
}
PLACES = {
    "wide": "{parameters: ssd, gradients: ssd, optimizer: ssd, activations: ssd}",
    "narrow": "{parameters: host, gradients: {device: 0.5, host: 0.5}, optimizer: {host: 0.4, ssd: 0.6}}",
}


class TiersTest(real_cluster.RealCluster):
    def job(self, name: str, kind: str, tiers: bool) -> pathlib.Path:
        path = self.folder / f"{name}.yaml"
        memory = f"""
memory:
  device: 64MiB
  host: 64MiB
  ssd: [{{path: {self.folder}/ssd-a, size: 32MiB}}, {{path: {self.folder}/ssd-b, size: 16MiB}}]
  place: {PLACES[kind]}
  stream: {{resident: 2, moved: 1}}
"""
        path.write_text(f"""
model: {{family: llama, layers: 4, hidden: 64, heads: 4, kv_heads: 2, ffn: 128, vocab: 256}}
data: {{train: [{{path: {self.folder}/text.txt}}]}}
train: {{steps: {STEPS}, sequence: 64, global_batch: 8, micro_batch: 1, {TRAIN[kind]},
        schedule: {{name: constant, warmup_steps: 5}}}}
parallel: {{data: 2, shard: zero1, virtual_shards: 4{", update_policy: spooled" if tiers and kind == "wide" else ""}}}
checkpoint: {{every_steps: {EVERY}}}
{memory if tiers else ""}""")
        return path

    def kill_a_trainer(self, name: str, dice: random.Random):
        """At any moment after a checkpoint more."""
        goal = self.get(name)["checkpoint_step"] + EVERY
        self.wait_for(lambda: self.get(name)["checkpoint_step"] >= goal, f"a checkpoint of step {goal} or later")
        time.sleep(dice.random() * 0.2)
        trainers = self.processes("strata-trainer")
        if not trainers:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(dice.choice(trainers), signal.SIGKILL)

    def left(self) -> list:
        return [path for folder in ("ssd-a", "ssd-b") for path in (self.folder / folder).rglob("*") if path.is_file()]

    def check_traffic(self, name: str, record: dict):
        """What moved is told by stream and by path, in the record and in the job's description."""
        memory, transfers = record["memory"], record["transfers"]
        self.assertLessEqual({"fetch", "evict", "update-read", "update-write"}, set(transfers))
        for stream, transfer in transfers.items():
            self.assertGreater(transfer["total_bytes"], transfer["bytes"], stream)
        paths = memory["ssd"]["paths"]
        self.assertEqual(set(paths), {f"{self.folder}/ssd-a", f"{self.folder}/ssd-b"})
        for path in paths.values():
            self.assertGreaterEqual(path["total_read_bytes"], path["read_bytes"])
            self.assertGreater(path["total_written_bytes"], 0)
        for kind in ("read", "write"):
            stalls = sum(transfers.get(f"{by}-{kind}", {}).get("stall_seconds", 0) for by in ("ssd", "update"))
            self.assertAlmostEqual(sum(path[f"{kind}_stall_seconds"] for path in paths.values()), stalls)
        self.assertGreater(memory["ssd"]["write_rate"], 0, "the first two steps alone are not paced")
        for tier in ("device", "host"):
            fixed = memory[tier]["locked_bytes"] == memory[tier]["arena_bytes"]
            self.assertTrue(fixed or "mlock" in memory[tier]["lacks"], memory[tier])
        text = self.strata("describe", "job", name).stdout
        for word in ("TRANSFER", "SSD PATH", "spread to", "locked", "slab"):
            self.assertIn(word, text)

    def test_jobs_beyond_the_device_survive_kills_with_the_bits_of_plain_memory(self):
        self.strata("up", "--agents", "2", "--dir", self.cluster)
        for kind in TRAIN:
            dice = random.Random(kind)
            self.strata("submit", self.job(kind, kind, tiers=True))
            for _ in range(KILLS):
                self.kill_a_trainer(kind, dice)
            self.strata("wait", kind, "--for=state=SUCCEEDED")
            job = self.get(kind)
            self.assertEqual(job["step"], STEPS)
            self.assertGreater(job["attempt"], 1)
            self.strata("run", self.job(f"plain-{kind}", kind, tiers=False), "--dir", self.folder / f"plain-{kind}")
            self.assertEqual(self.numbers(job["directory"]), self.numbers(self.folder / f"plain-{kind}"))
            memory = self.records(job["directory"])[-1]["memory"]
            self.assertEqual(set(memory), {"device", "host", "ssd"})
            for tier, figures in memory.items():
                self.assertEqual(int(figures["predicted_bytes"]), int(figures["arena_bytes"]), tier)
            self.check_traffic(kind, self.records(job["directory"])[-1])
            self.assertEqual(self.left(), [])
        self.down()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
