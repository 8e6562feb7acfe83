"""Real processes over TLS: a controller, an agent that enrols by token and renews its certificate, clients with
certificates, an impostor on the controller's port; and a job that trains through all of it."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_cluster

STEPS = 400


class SecurityTest(real_cluster.RealCluster):
    def setUp(self):
        super().setUp()
        self.env.pop("STRATA_AUTH", None)
        self.children = []
        self.addCleanup(self.end_children)
        self.authority("ca")

    def end_children(self):
        for child in self.children:
            child.kill()
            child.wait()

    def authority(self, name: str):
        self.strata("authority", "init", self.folder / name, "--cluster", "prod")

    def start(self, program: str, log: str, *arguments) -> subprocess.Popen:
        with open(self.folder / log, "ab") as output:
            child = subprocess.Popen([self.folder / "bin" / program, *map(str, arguments)], env=self.env,
                                     cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        self.children.append(child)
        return child

    def logs(self) -> str:
        return "\n".join(f"{path.name}: {path.read_text(errors='replace')[-2000:]}"
                         for path in sorted(self.folder.glob("*.log")))

    def controller(self, authority: str, folder: str, listen: str = "127.0.0.1:0", *more) -> subprocess.Popen:
        """Serves; its address is in self.address."""
        ready, ca = self.folder / f"{folder}.ready", self.folder / authority
        ready.unlink(missing_ok=True)
        child = self.start("strata-controller", f"{folder}.log", "--dir", self.folder / folder, "--listen", listen,
                           "--tls-certificate", ca / "controller.pem", "--tls-key", ca / "controller.key",
                           "--tls-authority", ca / "root.pem", "--tls-authority-key", ca / "root.key",
                           "--admin", "users/alice", "--ready-file", ready, *more)
        self.wait_for(ready.exists, "the controller serves")
        self.address = json.loads(ready.read_text())["address"]
        return child

    def agent(self, token: str, node: str = "n0") -> subprocess.Popen:
        return self.start("strata-worker", f"{node}.log", "--controller", self.address, "--node", node, "--dir",
                          self.folder / node, "--devices", 2, "--join", token)

    def token(self, nodes: str) -> str:
        return json.loads(self.strata("token", "create", "--nodes", nodes, "-o", "json").stdout)["join"]

    def become(self, identity: str, authority: str = "ca"):
        ca, own = self.folder / authority, self.folder / "own"
        self.strata("certificate", "issue", identity, "--authority", ca, "--out", own, "--replace")
        self.env.update(STRATA_SERVER=self.address, STRATA_TLS_AUTHORITY=str(ca / "root.pem"),
                        STRATA_TLS_CERTIFICATE=f"{own}.pem", STRATA_TLS_KEY=f"{own}.key")

    def said(self, text: str, log: str = "n0.log") -> bool:
        return text in (self.folder / log).read_text(errors="replace")

    def ready_nodes(self) -> list:
        nodes = json.loads(self.strata("get", "nodes", "-o", "json").stdout)
        return [n["name"] for n in nodes if n["state"] == "READY"]

    def job(self) -> pathlib.Path:
        path = self.folder / "job.yaml"
        path.write_text(f"""
model: {{family: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 128, vocab: 256}}
data: {{train: [{{path: {self.folder}/text.txt}}]}}
train: {{steps: {STEPS}, sequence: 64, global_batch: 8, micro_batch: 1, schedule: {{warmup_steps: 5}}}}
parallel: {{data: 2, shard: zero1}}
checkpoint: {{every_steps: 20}}
""")
        return path

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
        self.strata("certificate", "issue", "users/x", "--authority", self.folder / "other", "--out", self.folder / "x")
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
