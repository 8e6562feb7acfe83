"""Daemons that are replaced, upgraded or restored under a running job: no step is lost, and its numbers are those of
`strata run`."""

import os
import shutil
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import daemons

STEPS, EVERY = 1500, 20


class UpgradeTest(daemons.Daemons):
    reference = None  # the numbers of `strata run`, once for all tests

    def begin(self, *flags, nodes: int = 2):
        """A job that trains on n0 and n1."""
        if UpgradeTest.reference is None:
            self.strata("run", self.job(steps=STEPS, every=EVERY), "--dir", self.folder / "reference")
            UpgradeTest.reference = self.numbers(self.folder / "reference")
        self.start_cluster(nodes, *flags)
        self.submit(steps=STEPS, every=EVERY)
        self.wait_for(lambda: self.get("job")["checkpoint_step"] >= EVERY, "a checkpoint")

    def finish(self, epoch: int) -> dict:
        """Waits for its end, and checks that no step was done twice."""
        self.strata("wait", "job", "--for=state=SUCCEEDED")
        job = self.get("job")
        self.assertEqual((job["step"], job["epoch"]), (STEPS, epoch), job)
        self.assertEqual(sum(event["lost_steps"] for event in job["events"]), 0, job["events"])
        self.assertEqual(self.numbers(self.directory), self.reference)
        return job

    def test_controller_and_agents_are_upgraded_one_after_another(self):
        self.begin()
        self.another_build("new")
        before = self.trainers()
        self.end("controller")
        self.start_controller(programs="new")
        for node in ("n0", "n1"):
            old = self.nodes()[node]["build"]
            self.end(node)
            self.start_agent(node, programs="new")
            self.wait_for(lambda: self.nodes()[node]["state"] == "READY" and self.nodes()[node]["build"] != old,
                          f"{node} is back with the new build")
            self.assertEqual(self.trainers(), before)  # they train on, of the old build
        self.assertLess(self.step(), STEPS)
        self.finish(epoch=1)

    def test_a_node_whose_agent_is_to_go_is_emptied_at_a_checkpoint(self):
        self.begin("--on-sigterm", "drain", nodes=3)
        self.assertEqual(self.end("n1"), 0)
        self.wait_for(lambda: {name: node["jobs"] for name, node in self.nodes().items()} ==
                      {"n0": ["job"], "n1": [], "n2": ["job"]}, "its ranks are on n0 and n2")
        self.finish(epoch=2)

    def test_programs_replaced_under_running_agents_harm_nothing(self):
        self.begin()
        self.another_build("new")
        for program in (self.folder / "new").iterdir():  # as an installer does
            os.rename(program, self.folder / "bin" / program.name)
        os.kill(self.trainers()[0], signal.SIGKILL)
        self.wait_for(lambda: self.get("job")["epoch"] == 2 and self.get("job")["state"] == "RUNNING",
                      "its ranks are started again, of the build that their agents began with")
        self.strata("wait", "job", "--for=state=SUCCEEDED")
        self.assertEqual(self.numbers(self.directory), self.reference)

    def test_a_state_restored_from_a_backup_finds_the_job_where_it_is(self):
        self.begin()
        self.strata("backup", "-o", self.folder / "state.db")
        membership = (self.cluster / "n0" / "membership").read_bytes()
        os.kill(self.trainers()[0], signal.SIGKILL)  # a start of its ranks that the backup does not know
        self.wait_for(lambda: self.get("job")["epoch"] == 2 and self.get("job")["state"] == "RUNNING", "another epoch")
        later = self.step() + 2 * EVERY
        self.wait_for(lambda: self.get("job")["checkpoint_step"] >= later, "checkpoints that the backup does not know")
        before = self.trainers()
        self.end("controller", signal.SIGKILL)
        state = self.cluster / "controller"
        for file in state.glob("controller.db*"):
            file.unlink()
        shutil.copy(self.folder / "state.db", state / "controller.db")
        self.start_controller("--restored")
        self.wait_for(lambda: self.get("job")["epoch"] == 2 and self.get("job")["state"] == "RUNNING",
                      "the job is found again")
        self.assertEqual(self.trainers(), before)
        self.wait_for(lambda: (self.cluster / "n0" / "membership").read_bytes() != membership,
                      "its agents know of the restored store")
        self.strata("wait", "job", "--for=state=SUCCEEDED")
        job = self.get("job")
        self.assertEqual((job["step"], job["epoch"]), (STEPS, 2), job)
        self.assertEqual([(event["cause"], event["lost_steps"]) for event in job["events"] if event["cause"]],
                         [("restored", 0)])
        self.assertEqual(self.numbers(self.directory), self.reference)
        # The one that was replaced is not heard any more, nor is another copy of the backup without the word.
        self.end("controller")
        for file in state.glob("controller.db*"):
            file.unlink()
        shutil.copy(self.folder / "state.db", state / "controller.db")
        self.start_controller()
        self.wait_for(lambda: "not heard" in self.logs(), "the agents refuse a store that was restored unsaid")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
