"""Jobs on GPUs under a controller, by real processes: agents whose management library shows them cards of some kinds, ranks on
the stand-ins of CUDA and NCCL. Ranks are placed by kinds and NVLink domains, each sees its own card, losses are those of one
rank on the CPU; who loses a rank goes on from the checkpoint."""

import contextlib
import os
import pathlib
import shutil
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import daemons

STEPS = 3
TRAINER = "strata-trainer-standin"
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

    def start_nodes(self, *kinds, cards=2, programs="bin"):
        """Each an NVLink domain; `programs`: the folder that those of the last are in."""
        self.start_controller()
        for number, kind in enumerate(kinds):
            node = f"n{number}"
            told = self.folder / f"{node}.cards"
            told.write_text("".join(f"gpu {CARDS[kind]}|links=18|fabric=3|clique={number}|uuid=GPU-{node}-{device}\n"
                                    for device in range(cards)))
            self.env["STRATA_FAKE_NVML"] = str(told)
            self.start_agent(node, "--devices", "gpu", "--nvml", self.folder / "bin/libfake_nvml.so",
                             programs=programs if number + 1 == len(kinds) else "bin")
        self.wait_for(lambda: self.answers() and len(self.nodes()) == len(kinds), "all nodes")
        self.assertEqual([self.nodes()[f"n{number}"]["device"] for number in range(len(kinds))], list(kinds))

    def submit_job(self, name, device, *sets, code=0):
        """One that trains until it is cancelled."""
        command = ["submit", "job.yaml"]
        for value in (f"name={name}", f"resources.device={device}", "train.steps=100000", *sets):
            command += ["--set", value]
        return self.strata(*command, code=code)

    def cancel(self, name):
        self.strata("cancel", name)
        self.strata("wait", name, "--for=state=CANCELLED", "--timeout", "60s")

    def losses(self, directory):
        return [record["loss"] for record in self.records(directory)][:STEPS]

    def expect_cpu_losses(self, name):
        if not (self.folder / "of-cpu").exists():
            self.strata("run", "job.yaml", "--dir", "of-cpu")
        directory = self.get(name)["directory"]
        self.wait_for(lambda: len(self.losses(directory)) == STEPS, f"steps of {name}")
        theirs = self.losses(self.folder / "of-cpu")
        self.assertEqual(len(theirs), STEPS)
        for ours, other in zip(self.losses(directory), theirs):
            self.assertLess(abs(ours - other), 1e-6 * other)

    def cards_seen(self):
        """Of all ranks that live; a process that is just being started shows none of its own."""
        seen = []
        for pid in self.processes(TRAINER):
            with contextlib.suppress(OSError):
                variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
                seen += [text.partition("=")[2] for text in variables if text.startswith("CUDA_VISIBLE_DEVICES=")]
        return sorted(seen)

    def wait_for_checkpoint(self, name, step):
        self.wait_for(lambda: self.get(name)["checkpoint_step"] >= step, f"a checkpoint of step {step}")
        return self.get(name)

    def nodes_of(self, name):
        return sorted({rank["node"] for rank in self.get(name)["ranks"]})

    def test_ranks_of_two_nodes_are_placed_by_domains_and_have_the_cpus_losses(self):
        self.start_nodes("h100", "h100")
        layout = "parallel={tensor: 2, data: 2}"
        self.submit_job("both", "h100", layout)
        self.wait_for(lambda: len(self.cards_seen()) == 4, "four ranks")
        job = self.get("both")
        places = {rank["rank"]: (rank["node"], rank["device"]) for rank in job["ranks"]}
        self.assertEqual(len(set(places.values())), 4)
        self.assertEqual((places[0][0], places[2][0]), (places[1][0], places[3][0]))  # tensor groups
        self.assertEqual(self.cards_seen(), sorted(f"GPU-{node}-{device}" for node, device in places.values()))
        self.assertEqual(job["spec"]["resources"]["device"], "h100")
        self.assertIn("Its devices are of kind h100.", self.strata("explain", "both").stdout)
        self.expect_cpu_losses("both")
        self.cancel("both")
        self.submit_job("short", "gpu", layout, f"train.steps={STEPS}")
        self.strata("wait", "short", "--for=state=SUCCEEDED", "--timeout", "100s")
        self.expect_cpu_losses("short")

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

    def test_nodes_are_told_apart_by_the_trainer_that_they_start(self):
        shutil.copytree(self.folder / "bin", self.folder / "changed")
        with open(self.folder / "changed/strata-trainer-standin", "ab") as file:
            file.write(b"another build")
        self.start_nodes("h100", "h100", programs="changed")
        builds = {node["build"] for node in self.nodes().values()}
        self.assertEqual(len(builds - {""}), 2)
        self.submit_job("apart", "gpu", "parallel.data=4", "train.global_batch=4")
        self.assertIn("which most devices of its kind have: upgrade it", self.strata("explain", "apart").stdout)

    def test_what_is_missing_is_told(self):
        del self.env["STRATA_GPU_STANDIN"]
        self.start_nodes("h100")
        self.assertRegex(self.logs(), "no job can start here: .*strata-trainer-gpu: No such file or directory")
        self.submit_job("lacks", "gpu")
        told = self.strata("wait", "lacks", "--for=state=RUNNING", "--timeout", "60s", code=1)
        self.assertIn("strata-trainer-gpu: No such file or directory — jobs on GPUs need it", told.stdout + told.stderr)

    def test_a_killed_rank_is_recovered_from_the_checkpoint_and_a_cancellation_ends_the_job(self):
        self.start_nodes("h100", "h100", cards=1)
        self.submit_job("long", "gpu", "parallel={data: 2, shard: zero1}")
        self.assertEqual(self.nodes_of("long"), ["n0", "n1"])
        before = self.wait_for_checkpoint("long", 1)
        self.assertEqual(self.cards_seen(), ["GPU-n0-0", "GPU-n1-0"])
        os.kill(self.processes(TRAINER)[1], signal.SIGKILL)
        self.wait_for(lambda: self.get("long")["attempt"] == 2, "another attempt")
        self.wait_for_checkpoint("long", before["checkpoint_step"] + 3)
        self.assertIn("was killed", self.strata("events", "long").stdout)
        steps = [record["step"] for record in self.records(before["directory"])]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))  # none of them twice
        self.assertEqual(self.cards_seen(), ["GPU-n0-0", "GPU-n1-0"])
        self.cancel("long")
        self.wait_for(lambda: not self.processes(TRAINER), "no rank is left")

    def test_a_job_leaves_a_card_that_has_failed(self):
        self.start_nodes("h100", "h100")
        self.submit_job("moved", "h100", "parallel.data=2")
        before = self.wait_for_checkpoint("moved", 1)
        failed = before["ranks"][0]
        with open(self.folder / f"{failed['node']}.cards", "a") as cards:
            cards.write(f"xid {failed['device']} 79\n")
        self.wait_for(lambda: self.get("moved")["attempt"] == 2, "another attempt")
        self.wait_for_checkpoint("moved", before["checkpoint_step"] + 3)
        seen = self.cards_seen()
        self.assertEqual(len(seen), 2)
        self.assertNotIn(f"GPU-{failed['node']}-{failed['device']}", seen)
        self.assertIn("Xid 79", self.strata("events", "moved").stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
