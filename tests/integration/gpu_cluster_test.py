"""Jobs on GPUs under a controller, by real processes: agents whose management library shows them cards of some kinds, ranks on
the stand-ins of CUDA and NCCL. Ranks are placed by kinds and NVLink domains, each sees its own card, losses are those of one
rank on the CPU; who loses a rank goes on from the checkpoint."""

import os
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import daemons

STEPS = 3
CARDS = {"h100": "name=NVIDIA H100 80GB HBM3|capability=9.0|memory=85899345920",
         "a100": "name=NVIDIA A100-SXM4-80GB|capability=8.0|memory=85899345920"}


class GpuClusterTest(daemons.Daemons):
    PROGRAMS = [*daemons.Daemons.PROGRAMS, "worker/trainer/strata-trainer-standin", "topology/nvml/libfake_nvml.so"]

    def setUp(self):
        super().setUp()
        self.env["STRATA_GPU_STANDIN"] = "1"
        (self.folder / "job.yaml").write_text(f"""
model: {{family: llama, layers: 2, hidden: 32, heads: 4, kv_heads: 2, ffn: 64, vocab: 256}}
data: {{train: [{{path: {self.folder}/text.txt}}]}}
train: {{sequence: 8, global_batch: 2, micro_batch: 1, steps: {STEPS}, schedule: {{name: constant, warmup_steps: 1}}}}
checkpoint: {{every_steps: 1}}
""")

    def start_nodes(self, *kinds, cards=2):
        """Each an NVLink domain."""
        self.start_controller()
        for number, kind in enumerate(kinds):
            node = f"n{number}"
            told = self.folder / f"{node}.cards"
            told.write_text("".join(f"gpu {CARDS[kind]}|links=18|fabric=3|clique={number}|uuid=GPU-{node}-{device}\n"
                                    for device in range(cards)))
            self.env["STRATA_FAKE_NVML"] = str(told)
            self.start_agent(node, "--devices", "gpu", "--nvml", self.folder / "bin/libfake_nvml.so")
        self.wait_for(lambda: self.answers() and len(self.nodes()) == len(kinds), "all nodes")
        self.assertEqual([self.nodes()[f"n{number}"]["device"] for number in range(len(kinds))], list(kinds))

    def submit_job(self, name, device, *sets, code=0):
        command = ["submit", "job.yaml", "--set", f"name={name}", "--set", f"resources.device={device}"]
        for value in sets:
            command += ["--set", value]
        return self.strata(*command, code=code)

    def losses(self, directory):
        return [record["loss"] for record in self.records(directory)]

    def expect_cpu_losses(self, name):
        self.strata("wait", name, "--for=state=SUCCEEDED", "--timeout", "100s")
        if not (self.folder / "of-cpu").exists():
            self.strata("run", "job.yaml", "--dir", "of-cpu")
        ours, theirs = self.losses(self.get(name)["directory"]), self.losses(self.folder / "of-cpu")
        self.assertEqual((len(ours), len(theirs)), (STEPS, STEPS))
        for one, other in zip(ours, theirs):
            self.assertLess(abs(one - other), 1e-6 * other)

    def cards_seen(self):
        """Of all ranks that live; a process that is just being started shows none of its own."""
        seen = []
        for pid in self.processes("strata-trainer-standin"):
            variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
            seen += [text.partition("=")[2] for text in variables if text.startswith("CUDA_VISIBLE_DEVICES=")]
        return sorted(seen)

    def nodes_of(self, name):
        return sorted({rank["node"] for rank in self.get(name)["ranks"]})

    def test_ranks_of_two_nodes_are_placed_by_domains_and_have_the_cpus_losses(self):
        self.start_nodes("h100", "h100")
        self.submit_job("both", "h100", "parallel={tensor: 2, data: 2}")
        self.wait_for(lambda: len(self.cards_seen()) == 4, "four ranks")
        job = self.get("both")
        places = {rank["rank"]: (rank["node"], rank["device"]) for rank in job["ranks"]}
        self.assertEqual(len(set(places.values())), 4)
        self.assertEqual((places[0][0], places[2][0]), (places[1][0], places[3][0]))  # tensor groups
        self.assertEqual(self.cards_seen(), sorted(f"GPU-{node}-{device}" for node, device in places.values()))
        self.assertEqual(job["spec"]["resources"]["device"], "h100")
        self.assertIn("Its devices are of kind h100.", self.strata("explain", "both").stdout)
        self.expect_cpu_losses("both")

    def test_a_job_is_on_the_kind_that_it_names_and_gpu_is_one_kind(self):
        self.start_nodes("h100", "a100")
        self.submit_job("named", "a100", "parallel.data=2")
        self.submit_job("any", "gpu", "parallel.data=2")
        self.wait_for(lambda: len(self.cards_seen()) == 4, "four ranks")
        self.assertEqual((self.nodes_of("named"), self.nodes_of("any")), (["n1"], ["n0"]))
        self.assertIn("Its devices are of kind a100.", self.strata("explain", "named").stdout)
        self.assertIn("Its devices are of kind h100.", self.strata("explain", "any").stdout)
        self.expect_cpu_losses("named")
        self.expect_cpu_losses("any")
        many = self.submit_job("many", "gpu", "parallel.data=4", "train.global_batch=4", code=3).stderr
        self.assertIn("needs 4 devices of kind", many)
        none = self.submit_job("none", "a100-80", code=3).stderr
        self.assertIn("no node has devices of kind a100-80 (there are: a100, h100)", none)
        self.assertIn("device a100 instead of a100-80", none)
        self.assertIn("no node has devices of kind cpu (there are: a100, h100)", self.submit_job("host", "cpu", code=3).stderr)

    def test_a_killed_rank_is_recovered_from_the_checkpoint_and_a_cancellation_ends_the_job(self):
        self.start_nodes("h100", "h100", cards=1)
        self.submit_job("long", "gpu", "parallel={data: 2, shard: zero1}", "train.steps=1000")
        self.assertEqual(self.nodes_of("long"), ["n0", "n1"])
        self.wait_for(lambda: self.get("long")["checkpoint_step"] >= 1, "a checkpoint")
        self.assertEqual(self.cards_seen(), ["GPU-n0-0", "GPU-n1-0"])
        killed = self.processes("strata-trainer-standin")[1]
        before = self.get("long")
        os.kill(killed, signal.SIGKILL)
        self.wait_for(lambda: self.get("long")["attempt"] == 2 and self.get("long")["state"] == "RUNNING", "another attempt")
        self.wait_for(lambda: self.get("long")["checkpoint_step"] > before["checkpoint_step"] + 1, "steps of the next attempt")
        self.assertIn("was killed", self.strata("events", "long").stdout)
        steps = [record["step"] for record in self.records(before["directory"])]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))  # none of them anew
        self.assertEqual(self.cards_seen(), ["GPU-n0-0", "GPU-n1-0"])
        self.strata("cancel", "long")
        self.strata("wait", "long", "--for=state=CANCELLED", "--timeout", "60s")
        self.wait_for(lambda: not self.processes("strata-trainer-standin"), "no rank is left")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
