"""Real processes over TLS: a controller, an agent that enrols by token and renews its certificate, clients with
certificates, an impostor on the controller's port; and a job that trains through all of it."""

import json
import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_cluster
import secure_cluster
from secure_cluster import STEPS


class SecurityTest(secure_cluster.SecureCluster):
    def test_a_job_trains_over_tls_while_certificates_are_renewed_and_an_impostor_comes(self):
        first = self.controller("ca", "controller")
        self.become("users/alice")
        self.assertEqual(json.loads(self.strata("whoami", "-o", "json").stdout)["identity"], "users/alice")
        self.agent(self.token("n*"))
        self.wait_for(lambda: self.ready_nodes() == ["n0"], "the node has enrolled")
        self.strata("submit", self.job())
        directory = self.get("job")["directory"]
        self.wait_for(lambda: len(self.records(directory)) > 0, "the job trains")

        # Somebody else's controller takes the port.
        first.send_signal(signal.SIGTERM)
        first.wait()
        self.authority("other")
        impostor = self.controller("other", "impostor", self.address)
        self.wait_for(lambda: self.said("not from this cluster's authority"), "the agent sees the impostor")
        self.assertIn("not from this cluster's authority", self.strata("get", "jobs", code=6).stderr)
        impostor.kill()
        impostor.wait()

        # The true one again; certificates that it issues now are soon over.
        self.controller("ca", "controller", self.address, "--node-certificate-seconds", 6)
        self.wait_for(self.answers, "the controller serves again")
        self.agent(self.token("n1"), "n1")
        own = self.folder / "n1" / "tls" / "node.pem"
        self.wait_for(own.exists, "the second node has enrolled")
        enrolled = own.read_text()
        self.wait_for(lambda: own.read_text() != enrolled, "its certificate is renewed")
        self.wait_for(lambda: self.ready_nodes() == ["n0", "n1"], "both nodes are there")
        self.strata("wait", "job", "--for=state=SUCCEEDED")
        self.assertEqual([r["step"] for r in self.records(directory)], list(range(1, STEPS + 1)))
        self.assertEqual(self.get("job")["epoch"], 1)

    def test_who_cannot_show_a_certificate_that_is_believed_gets_nowhere_and_is_told_why(self):
        self.controller("ca", "controller")
        self.become("users/alice")
        used = self.token("m*")
        agent = self.agent(used)
        self.assertEqual(agent.wait(timeout=real_cluster.WAIT_SECONDS), 1)
        self.assertTrue(self.said("is for nodes m*, not for n0"))
        self.authority("other")
        self.certificate("users/x", "other", "x")
        foreign = used.split("@")[0] + "@sha256:" + "0" * 64
        self.assertEqual(self.agent(foreign).wait(timeout=real_cluster.WAIT_SECONDS), 1)
        self.assertTrue(self.said("is not the one of sha256:0000"))
        # Users: none of this cluster's, one without a role, one whose files do not belong together, nobody.
        self.env.update(STRATA_TLS_CERTIFICATE=str(self.folder / "x.pem"), STRATA_TLS_KEY=str(self.folder / "x.key"))
        self.assertIn("not from this cluster's authority", self.strata("get", "jobs", code=2).stderr)
        self.become("users/bob")
        self.strata("get", "nodes", code=4)
        self.env["STRATA_TLS_KEY"] = str(self.folder / "x.key")
        self.assertIn("not that of the certificate", self.strata("get", "jobs", code=2).stderr)
        self.env.pop("STRATA_TLS_CERTIFICATE")
        self.env.pop("STRATA_TLS_KEY")
        self.strata("get", "nodes", code=4)
        self.env.pop("STRATA_TLS_AUTHORITY")
        self.assertIn("TLS", self.strata("get", "nodes", code=6).stderr)

    def test_each_user_may_what_the_roles_of_the_policy_allow_and_what_was_done_is_known(self):
        self.controller("ca", "controller")
        self.become("users/alice")
        policy = self.folder / "policy.yaml"
        policy.write_text("""
projects: [{name: nlp, max_queued_jobs: 1}, {name: vision}]
roles:
  - {role: submitter, members: [users/sue], project: nlp}
  - {role: viewer, members: [users/vic], project: nlp}
  - {role: viewer, members: [users/eve], project: vision}
  - {role: operator, members: [users/oli]}
""")
        self.strata("apply", policy)
        self.assertIn("role: submitter", self.strata("get", "policy").stdout)
        job = self.job()
        job.write_text(job.read_text() + "project: nlp\n")
        (self.folder / "more.yaml").write_text(job.read_text())
        self.become("users/sue")
        self.strata("submit", job)
        self.assertIn("max_queued_jobs", self.strata("submit", self.folder / "more.yaml", code=1).stderr)
        self.assertIn("submitter in project nlp", self.strata("whoami").stdout)
        self.become("users/vic")
        self.assertEqual(self.strata("get", "jobs", "-o", "name").stdout, "job\n")
        self.assertIn("users/vic has viewer in project nlp", self.strata("cancel", "job", code=4).stderr)
        self.become("users/eve")
        self.assertEqual(json.loads(self.strata("get", "jobs", "-o", "json").stdout), [])
        unseen = self.strata("get", "job", "job", code=4).stderr
        self.assertEqual(self.strata("get", "job", "jab", code=4).stderr, unseen.replace("job job", "job jab"))
        self.strata("get", "audit", code=4)
        self.become("users/oli")
        self.strata("cancel", "job")
        self.become("users/alice")
        records = json.loads(self.strata("get", "audit", "resource=jobs/job", "-o", "json").stdout)
        self.assertEqual([(r["identity"], r["method"].split("/")[1], r["outcome"]) for r in records],
                         [("users/oli", "CancelJob", "OK"), ("users/eve", "GetJob", "PERMISSION_DENIED"),
                          ("users/vic", "CancelJob", "PERMISSION_DENIED"), ("users/sue", "CreateJob", "OK")])
        lines = [json.loads(line) for line in (self.folder / "controller.log").read_text().splitlines()
                 if line.startswith('{"audit"')]
        self.assertEqual([line["audit"] for line in lines], list(range(1, len(lines) + 1)))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
