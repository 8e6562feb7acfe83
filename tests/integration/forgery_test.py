"""Peers that say what is not theirs to say, to a real controller beside a real agent whose job trains: who takes another
node's name, who commits, steps and logs for ranks that it has not, who speaks of what this release does not know."""

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_cluster
import secure_cluster

PERMISSION_DENIED, UNAUTHENTICATED = 7, 16
FORGED_STEP = 99_999
KIND_OF_LATER_RELEASES = bytes([0x9A, 0x06, 5]) + b"later"  # field 99 of a message, of bytes
SPOKEN = {"least": 1, "greatest": 3}


class Peer:
    """A session as an agent holds one, by tests/integration/raw_session.cc."""

    INCARNATION = 4711

    def __init__(self, process: subprocess.Popen):
        self.process, self.heard, self.queue = process, [], queue.Queue()
        threading.Thread(target=self._hear, daemon=True).start()

    def _hear(self):
        with self.process.stdout as lines:
            for line in lines:
                self.queue.put(json.loads(line))

    def say(self, **message):
        self._write(json.dumps({"incarnation": self.INCARNATION, **message}))

    def say_unknown(self, kind: bytes):
        """A message of that field alone, beside what every message has."""
        self._write("hex " + (b"\x09" + self.INCARNATION.to_bytes(8, "little") + kind).hex())

    def register(self, node: str):
        self.say(register={"node": node, "device": "cpu", "devices": 1, "protocol": SPOKEN})

    def wait_for(self, kind: str) -> dict:
        """The next message of the kind; `status`: the session's end."""
        while True:
            message = self.queue.get(timeout=real_cluster.WAIT_SECONDS)
            self.heard.append(message)
            if kind in message:
                return message[kind]

    def _write(self, line: str):
        """Whom the controller turns away at the door may be gone before: what it heard says so."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()


class ForgeryTest(secure_cluster.SecureCluster):
    PROGRAMS = [*secure_cluster.SecureCluster.PROGRAMS, "tests/integration/raw-session"]

    def setUp(self):
        """A job trains on n0."""
        super().setUp()
        self.controller("ca", "controller")
        self.become("users/alice")
        self.true_agent = self.agent(self.token("n0"))
        self.wait_for(lambda: self.ready_nodes() == ["n0"], "the node has enrolled")
        self.strata("submit", self.job(steps=100_000))
        self.wait_for(lambda: self.step() > 0, "the job trains")
        job = self.get("job")
        self.epoch = {"job": "jobs/job", "epoch": job["epoch"], "uid": job["uid"]}

    def step(self) -> int:
        return self.get("job")["step"]

    def peer(self, *certificate) -> Peer:
        process = subprocess.Popen([self.folder / "bin/raw-session", self.address, self.folder / "ca/root.pem", *certificate],
                                   env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.children.append(process)
        peer = Peer(process)
        self.addCleanup(peer.close)
        return peer

    def stranger(self) -> Peer:
        """n1, a node of the cluster like any other, with no rank of the job."""
        peer = self.peer(*self.certificate("nodes/n1", name="n1"))
        peer.register("n1")
        peer.wait_for("welcome")
        return peer

    def assert_untouched(self):
        """Its ranks train on as they did, for their true agent."""
        before = self.step()
        self.wait_for(lambda: self.step() > before, "another step")
        job = self.get("job")
        self.assertEqual((job["state"], job["epoch"], job["events"]), ("RUNNING", self.epoch["epoch"], []), self.logs())
        self.assertLess(job["step"], FORGED_STEP)
        self.assertIsNone(self.true_agent.poll(), self.logs())
        self.assertFalse(self.said("dismissed"))

    def test_an_impostor_of_a_node_hears_nothing_and_the_true_agent_stays(self):
        """Register(n0) once made the true agent exit, and the impostor was sent the job."""
        for who, status in ((), UNAUTHENTICATED), (("users/alice",), PERMISSION_DENIED), (("nodes/n1",), PERMISSION_DENIED):
            peer = self.peer(*(self.certificate(*who, name="impostor") if who else ()))
            peer.register("n0")
            self.assertEqual(peer.wait_for("status"), status, (who, peer.heard))
            self.assertEqual(len(peer.heard), 1, peer.heard)
        refused = json.loads(self.strata("get", "audit", "resource=nodes/n0", "-o", "json").stdout)
        self.assertIn(("nodes/n1", "PERMISSION_DENIED"), [(r["identity"], r["outcome"]) for r in refused])
        self.assert_untouched()

    def test_a_commit_of_a_node_without_a_rank_of_the_job_is_refused(self):
        """Step 99999 at /etc was once recorded, and the job shown at that step."""
        peer = self.stranger()
        checkpoint = {"epoch": self.epoch["epoch"], "step": FORGED_STEP, "manifestDigest": "forged", "path": "/etc"}
        peer.say(progress={"epoch": self.epoch, "progress": {"step": {"step": FORGED_STEP, "epoch": self.epoch["epoch"]}}})
        peer.say(written={"epoch": self.epoch, "step": FORGED_STEP, "fragments": {"0": "forged", "1": "forged"}})
        peer.say(commit={"epoch": self.epoch, "checkpoint": checkpoint})
        answer = peer.wait_for("commit")
        self.assertFalse(answer.get("accepted", False), answer)
        self.assertNotEqual(answer["reason"], "")
        self.assertNotIn("prepare", {kind for message in peer.heard for kind in message})
        self.assertNotEqual(self.get("job")["checkpoint_step"], FORGED_STEP)
        self.assert_untouched()

    def test_log_lines_of_a_node_without_a_rank_of_the_job_are_shown_to_nobody(self):
        """They once reached any job's log, even before the session was admitted."""
        line = {"job": "jobs/job", "uid": self.epoch["uid"],
                "line": {"epoch": self.epoch["epoch"], "rank": 0, "text": "a forged line"}}
        unregistered = self.peer(*self.certificate("nodes/n1", name="n1"))
        unregistered.say(log=line)
        self.assertNotEqual(unregistered.wait_for("status"), 0)
        peer = self.stranger()
        peer.say(log=line)
        peer.say(commit={"epoch": self.epoch, "checkpoint": {"step": 1, "manifestDigest": "forged", "path": "/etc"}})
        peer.wait_for("commit")  # what came before it has been heard
        self.assert_untouched()
        directory = self.get("job")["directory"]
        self.strata("cancel", "job")
        self.strata("wait", "job", "--for=state=CANCELLED")
        self.assertNotIn("a forged line", self.strata("logs", "job").stdout)
        for file in os.scandir(directory):
            if file.is_file():
                with open(file.path, encoding="utf-8", errors="replace") as text:
                    self.assertNotIn("a forged line", text.read(), file.path)

    def test_kinds_of_messages_that_the_controller_does_not_know_end_no_session(self):
        """Each once ended the session, and the agent of a later release came back for ever."""
        peer = self.stranger()
        for _ in range(3):
            peer.say_unknown(KIND_OF_LATER_RELEASES)
        policy = self.folder / "policy.yaml"
        policy.write_text("timing: {heartbeat_seconds: 0.75}\n")
        self.strata("apply", policy)
        self.assertEqual(peer.wait_for("timing")["timing"]["heartbeatSeconds"], 0.75)
        peer.say(heartbeat={})
        self.wait_for(lambda: self.ready_nodes() == ["n0", "n1"], "the node is there")
        self.assertIsNone(peer.process.poll())
        self.assert_untouched()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
