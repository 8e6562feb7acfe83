"""A cluster over TLS whose daemons a test starts itself, with an authority that makes anybody a certificate."""

import json
import pathlib
import subprocess

import real_cluster

STEPS = 400  # of a job


class SecureCluster(real_cluster.RealCluster):
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

    def certificate(self, identity: str, authority: str = "ca", name: str = "own") -> tuple:
        """The files of a certificate and its key."""
        out = self.folder / name
        self.strata("certificate", "issue", identity, "--authority", self.folder / authority, "--out", out, "--replace")
        return f"{out}.pem", f"{out}.key"

    def become(self, identity: str):
        certificate, key = self.certificate(identity)
        self.env.update(STRATA_SERVER=self.address, STRATA_TLS_AUTHORITY=str(self.folder / "ca/root.pem"),
                        STRATA_TLS_CERTIFICATE=certificate, STRATA_TLS_KEY=key)

    def said(self, text: str, log: str = "n0.log") -> bool:
        return text in (self.folder / log).read_text(errors="replace")

    def ready_nodes(self) -> list:
        nodes = json.loads(self.strata("get", "nodes", "-o", "json").stdout)
        return [n["name"] for n in nodes if n["state"] == "READY"]

    def job(self, steps: int = STEPS) -> pathlib.Path:
        path = self.folder / "job.yaml"
        path.write_text(f"""
model: {{family: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 128, vocab: 256}}
data: {{train: [{{path: {self.folder}/text.txt}}]}}
train: {{steps: {steps}, sequence: 64, global_batch: 8, micro_batch: 1, schedule: {{warmup_steps: 5}}}}
parallel: {{data: 2, shard: zero1}}
checkpoint: {{every_steps: 20}}
""")
        return path
