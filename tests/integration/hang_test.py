"""A rank that stands still inside a group's collective is named with rank, group, instruction and stack, whatever kind of group."""

import os
import pathlib
import re
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_cluster

# What others wait for while a rank is held still for so long; too short for an agent to look twice.
HOLD_SECONDS = 0.05
# It may stand elsewhere when it is stopped: between steps, or in another group.
ATTEMPTS = 40


class HangTest(real_cluster.RealCluster):
    def start(self, parallel: str, agents: int, tied: bool = False, batch: int = 8):
        self.strata("up", "--agents", agents, "--dir", self.cluster)
        self.addCleanup(self.strata, "down", "--dir", self.cluster)
        path = self.folder / "job.yaml"
        path.write_text(f"""
model: {{family: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 128, vocab: 256, tied_embeddings: {str(tied).lower()}}}
data: {{train: [{{path: {self.folder}/text.txt}}]}}
train: {{steps: 1000000, sequence: 64, global_batch: {batch}, micro_batch: 2}}
parallel: {{{parallel}}}
checkpoint: {{every_steps: 10}}
restart: {{max_without_progress: 100}}
""")
        self.strata("submit", path)

    def trains(self) -> bool:
        job = self.get("job")
        self.assertNotEqual(job["state"], "FAILED", job["reason"])
        return job["state"] == "RUNNING" and job["step"] >= self.least

    def rank_of(self, pid: int) -> int:
        line = pathlib.Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
        return int(re.search(r"--rank (\d+)", line).group(1))

    def stop_inside(self) -> int:
        """Rank 0 holds up the others; while they wait for it, one of them is stopped."""
        ranks = {self.rank_of(pid): pid for pid in self.processes("strata-trainer")}
        stopped = max(ranks)
        os.kill(ranks[0], signal.SIGSTOP)
        time.sleep(HOLD_SECONDS)
        os.kill(ranks[stopped], signal.SIGSTOP)
        os.kill(ranks[0], signal.SIGCONT)
        return stopped

    def restart_of(self, attempt: int):
        """How `describe job` tells why this attempt ended, once it does; it tells the latest events only."""
        text = self.strata("describe", "job", "job").stdout
        events = re.split(r"\n  (?=\d{4}-)", text[text.index("Events:"):text.index("\nSpec:")])
        return next((event for event in events if f"  RESTART  attempt {attempt}  " in event), None)

    def hangs_in(self, wanted: set):
        """Stops ranks until each of these groups was named."""
        self.least, seen = 3, {}
        for _ in range(ATTEMPTS):
            self.wait_for(self.trains, "it trains")
            job = self.get("job")
            self.least = job["step"] + 3
            rank, began = self.stop_inside(), time.monotonic()
            told = self.wait_for(lambda: self.restart_of(job["attempt"]), "a restart")
            seconds = time.monotonic() - began
            self.assertIn(f"rank {rank} on n", told)
            self.assertIn("its process was stopped", told)
            # Its main thread, by the names of its functions.
            self.assertRegex(told, r"\n      strata-trainer.*\n        \S", told)
            self.assertIn("strata::worker::", told)
            found = re.search(r"in group (\S+), instruction (.+?)(?:  \(|\n)", told)
            if found:
                seen.setdefault(found.group(1), (found.group(2), seconds))
            if wanted <= seen.keys():
                break
        for group, (instruction, seconds) in seen.items():
            print(f"{group}: '{instruction}' told after {seconds:.1f} s")
        self.assertLessEqual(wanted, seen.keys())

    def test_data(self):
        self.start("data: 2", 2)
        self.hangs_in({"data"})

    def test_tensor(self):
        self.start("tensor: 2", 2)
        self.hangs_in({"tensor"})

    def test_context(self):
        self.start("context: 2", 2)
        self.hangs_in({"context"})

    def test_pipeline(self):
        self.start("pipeline: 2", 2)
        self.hangs_in({"pipeline"})

    def test_tied_embedding_of_a_pipeline(self):
        self.start("pipeline: 2", 2, tied=True, batch=2)  # one micro-batch: few other waits
        self.hangs_in({"embedding"})

    def test_shards_and_replicas(self):
        self.start("data: 4, shard: zero3, shard_group: 2", 4)
        self.hangs_in({"shard"})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
