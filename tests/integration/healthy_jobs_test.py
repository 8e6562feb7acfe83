"""No healthy job is ended: real daemons and trainers under what once killed jobs. Limits are scaled by the policy, so that
a minute is about a second. Each test names the fault in the order of docs/operating.md's limits."""

import os
import signal
import subprocess
import sys
import time
import unittest
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import daemons

# What a minute is for a real cluster is seconds here. Of ranks the limits are as they are where a test does not say others.
TIMING = {"heartbeat_seconds": 0.2, "node_lost_seconds": 1.2, "lease_seconds": 3, "stop_seconds": 1}
# A stall lasts longer than any instruction may, as once counted as a hang.
HANG_SECONDS, STALL_SECONDS = 3, 4
CUT_SECONDS = 2 * TIMING["lease_seconds"]


class HealthyJobsTest(daemons.Daemons):
    def start_cluster(self, nodes: int = 2, *flags, **timing) -> list:
        return super().start_cluster(nodes, *flags, **{**TIMING, **timing})

    def assert_untouched(self, name: str = "job"):
        """Its ranks were never started anew, and nothing of it was counted or told as a failure."""
        job = self.get(name)
        self.maxDiff = None
        self.assertEqual((job["state"], job["epoch"], job["events"]), ("RUNNING", 1, []), self.logs())

    def gauge(self, series: str) -> float:
        with urllib.request.urlopen(f"http://{self.metrics_address}/metrics", timeout=30) as page:
            lines = page.read().decode().splitlines()
        return float(next(line for line in lines if line.startswith(series + " ")).split()[1])

    def test_stalls_of_batches_are_no_hangs(self):
        """Each was a restart without progress, and four of them ended a job for good."""
        self.start_cluster(hang_seconds=HANG_SECONDS)
        self.submit()
        for _ in range(2):
            self.slow(("pread", "text.txt", STALL_SECONDS))
            time.sleep(1)  # in which a read begins; the next one is as fast as ever
            self.slow()
            self.wait_for_steps(3)
        self.assert_untouched()

    def test_a_storage_that_moves_is_never_too_slow(self):
        """Each chunk of the checkpoint takes a moment, all of them longer than any limit."""
        self.start_cluster(1, hang_seconds=HANG_SECONDS, storage_seconds=HANG_SECONDS)
        self.slow(("write", ".safetensors", 0.1))
        self.submit(ranks=1, every=40)
        self.wait_for(lambda: list(self.directory.glob("checkpoints/step-*/manifest.json")), "a checkpoint")
        self.assert_untouched()

    def test_a_checkpoint_may_take_longer_than_a_step_may(self):
        self.start_cluster(hang_seconds=HANG_SECONDS)
        self.slow(("sync", ".safetensors", STALL_SECONDS))
        self.submit(every=20)
        self.wait_for(lambda: list(self.directory.glob("checkpoints/step-*/manifest.json")), "a checkpoint")
        self.wait_for_steps(3)
        self.assert_untouched()

    def test_a_storage_that_stands_still_is_told_and_not_counted(self):
        self.start_cluster(1, hang_seconds=HANG_SECONDS, storage_seconds=HANG_SECONDS)
        self.submit(ranks=1)
        self.slow(("pread", "text.txt", 60))
        events = self.wait_for(lambda: self.get("job")["events"], "the end of its ranks")
        self.slow()
        self.assertEqual(events[0]["cause"], "storage")
        self.assertEqual(self.get("job")["restarts_without_progress"], 0)
        self.wait_for_steps(3)

    def test_a_controller_that_is_cut_off_for_longer_than_a_lease_ends_nothing(self):
        self.start_cluster()
        self.submit()
        self.cut()
        self.wait_for(lambda: self.gauge("strata_controller_isolated") == 1, "that the controller doubts itself")
        before = self.step()
        time.sleep(CUT_SECONDS)
        self.assertGreater(self.step(), before)
        self.heal()
        self.wait_for(lambda: self.gauge("strata_controller_isolated") == 0, "that it hears its nodes")
        self.wait_for_steps(10)
        self.assert_untouched()

    def test_a_node_that_was_given_up_for_silence_alone_is_taken_back(self):
        names = self.start_cluster(3)
        self.submit(ranks=1)
        node = self.get("job")["ranks"][0]["node"]
        self.strata("drain", *(name for name in names if name != node))
        trainers = self.trainers()
        self.proxies[node].cut()
        self.wait_for(lambda: self.get("job")["state"] == "RECOVERING", "that its lease is over")
        self.proxies[node].heal()
        self.wait_for(lambda: self.get("job")["state"] == "RUNNING", "that it is taken back")
        job = self.get("job")
        self.assertEqual((job["epoch"], job["restarts_without_progress"]), (1, 0))
        self.assertEqual([(event["cause"], event["lost_steps"]) for event in job["events"]],
                         [("node_lost", 0), ("taken_back", 0)])
        self.assertEqual(self.trainers(), trainers)
        self.wait_for_steps(10)

    def test_a_folder_that_hangs_holds_up_nobody_but_those_who_ask_for_it(self):
        """Two streams of it once held all of the controller's threads, and after a lease all jobs were lost."""
        self.start_cluster()
        self.submit("hangs", ranks=1)
        hanging = self.directory
        self.submit("job", ranks=1)
        self.slow(("open", f"{hanging}/", 3600, "strata-controller"))
        for _ in range(4):
            subprocess.Popen([self.folder / "bin/strata", "watch", "hangs", "-o", "json"], env=self.env, cwd=self.folder,
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_for(self.delays, "that the controller opens something there")
        time.sleep(2 * TIMING["lease_seconds"])
        self.assertEqual({node["state"] for node in self.nodes().values()}, {"READY"})
        self.strata("cancel", "hangs")
        self.wait_for_steps(10)
        self.assert_untouched()

    def test_a_connection_reset_during_a_long_checkpoint_is_no_lost_node(self):
        self.start_cluster(suspect_seconds=0.5)
        self.slow(("sync", "rank-1.safetensors", STALL_SECONDS))  # the other rank misses it meanwhile
        self.submit(every=20)
        end = time.monotonic() + STALL_SECONDS
        while time.monotonic() < end:
            for each in self.proxies.values():
                each.reset()
            time.sleep(0.3)
        self.wait_for_steps(10)
        self.assert_untouched()

    def test_an_agent_that_is_told_to_end_leaves_its_trainers_to_its_successor(self):
        self.start_cluster()
        self.submit()
        trainers = self.trainers()
        for node in ("n0", "n1"):
            self.assertEqual(self.end(node), 0)
            self.start_agent(node)
        self.wait_for_steps(10)
        self.assertEqual(self.trainers(), trainers)
        self.assert_untouched()

    def test_a_lost_node_is_found_however_slow_commits_are(self):
        """Each waits longer than what once counted as a standstill of the controller, and there are many."""
        self.start_cluster(node_lost_seconds=3, lease_seconds=4)
        self.submit("busy", ranks=1, every=1)
        self.submit("job", ranks=1)
        self.slow(("sync", "controller.db", 1.2))
        node = self.get("job")["ranks"][0]["node"]
        frozen = [self.daemons[node].pid, *(pid for pid in self.trainers() if self.parent(pid) == self.daemons[node].pid)]
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        event = self.wait_for(lambda: self.get("job")["events"], "that the node is lost", 30)[0]
        self.assertIn("has not been heard from", event["reason"])
        self.slow()
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)

    def test_agents_without_a_controller_keep_their_trainers(self):
        self.start_cluster()
        self.submit()
        trainers = self.trainers()
        self.end("controller", signal.SIGKILL)
        time.sleep(CUT_SECONDS)
        self.wait_for_steps(3)
        self.start_controller()
        self.wait_for(lambda: self.get("job")["state"] == "RUNNING", "that it runs")
        self.wait_for_steps(3)
        self.assertEqual(self.trainers(), trainers)
        self.assert_untouched()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
