"""Meshes of every kind on a cluster: they go on with the numbers of `strata run` after the death of a rank, of a node, and after
another job's turn; with fewer data ranks; and what trained is what `explain` shows, however the placement numbered the ranks."""

import contextlib
import itertools
import json
import os
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_cluster

STEPS, EVERY = 80, 5
# A zone with a node to spare, and one without.
NODES = {"n0": "a", "n1": "a", "n2": "b", "n3": "b", "n4": "a"}
TENSOR = "tensor: 2, data: 2, shard: zero1, virtual_shards: 2"
PIPELINE = "pipeline: 2, stages: [2, 2], data: 2, virtual_shards: 2"
CONTEXT = "context: 2, data: 2, shard: zero3, virtual_shards: 2"
# Placed, its numbers go through shards, then stages, then replicas: no two axes of data are neighbours.
HYBRID = "pipeline: 2, stages: [2, 2], data: 4, shard: zero3, shard_group: 2, virtual_shards: 4"


class MeshesTest(real_cluster.RealCluster):
    def up(self, nodes, devices: int):
        path = self.folder / "map.yaml"
        path.write_text("levels: [zone, domain]\nlinks:\n"
                        "  root: {bytes_per_second: 1e8, latency_seconds: 1e-3}\n"
                        "  zone: {bytes_per_second: 1e9, latency_seconds: 1e-4}\n"
                        "  domain: {bytes_per_second: 1e10, latency_seconds: 1e-5}\nnodes:\n" +
                        "".join(f"  - {{name: {node}, at: {{zone: {NODES[node]}, domain: d{NODES[node]}}}, "
                                f"device: cpu, devices: {devices}}}\n" for node in nodes))
        self.strata("up", "--topology", path, "--dir", self.cluster,
                    *(word for node in nodes for word in ("--no-restart", node)))

    def job(self, name: str, parallel: str, **resources) -> pathlib.Path:
        path = self.folder / f"{name}.yaml"
        path.write_text(f"""
model: {{family: llama, layers: 4, hidden: 48, heads: 4, kv_heads: 2, ffn: 96, vocab: 256, tied_embeddings: false}}
data: {{train: [{{path: {self.folder}/text.txt}}]}}
train: {{steps: {STEPS}, sequence: 32, global_batch: 8, micro_batch: 1, schedule: {{warmup_steps: 3}}}}
parallel: {{{parallel}}}
resources: {json.dumps(resources)}
checkpoint: {{every_steps: {EVERY}}}
""")
        return path

    def wait_for_epoch(self, name: str, epoch: int, steps: int = 0):
        """Its ranks have their places, and that many steps are done."""
        job = self.wait_for(lambda: (job := self.get(name))["epoch"] == epoch and job["ranks"] and job, f"epoch {epoch}")
        self.wait_for(lambda: len(self.records(job["directory"])) > steps, f"step {steps} of epoch {epoch}")

    def kill_node(self, node: str):
        """The whole of it at once: nobody is left to tell of the end."""
        agent = json.loads((self.cluster / "processes.json").read_text())["processes"][node]["pid"]
        os.kill(agent, signal.SIGSTOP)
        for pid in self.processes("strata-trainer"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it may end meanwhile
                parent = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
                if parent == agent:
                    os.kill(pid, signal.SIGKILL)
        os.kill(agent, signal.SIGKILL)

    def mesh(self, name: str) -> dict:
        """As explained: sound in itself, and of the job's places."""
        mesh = json.loads(self.strata("explain", name, "-o", "json").stdout)["mesh"]
        ranks = mesh["ranks"]
        places = {rank["rank"]: rank["node"] for rank in self.get(name)["ranks"]}
        self.assertEqual({rank["rank"]: rank["node"] for rank in ranks}, places)
        names = [dimension["name"] for dimension in mesh["dimensions"]]
        for dimension in mesh["dimensions"]:
            others = [other for other in names if other != dimension["name"]]
            groups = {}
            for rank in ranks:
                groups.setdefault(tuple(rank[other] for other in others), []).append(rank["rank"])
            self.assertEqual(sorted(groups.values()), sorted(dimension["groups"]), dimension)
        return mesh

    def assert_trained(self, mesh: dict, directory):
        """Of all its coordinates a rank's file in a checkpoint tells: the layers those of its stage, the boxes its place in the
        tensor group, the part of each set which shard, replica and context it is."""
        step = max((pathlib.Path(directory) / "checkpoints").glob("step-*"))
        manifest = json.loads((step / "manifest.json").read_text())
        held = {rank["rank"]: {} for rank in mesh["ranks"]}  # by tensor: offset of the box, begin, end
        for tensor in manifest["tensors"]:
            if tensor["state"] == "param":
                for extent in tensor["extents"]:
                    file = manifest["files"][extent["file"]]["name"]
                    rank = int(file.removeprefix("rank-").removesuffix(".safetensors"))
                    offset = tuple(extent.get("box", {}).get("offset", ()))
                    held[rank].setdefault(tensor["name"], []).append((offset, extent["begin"], extent["end"]))
        degrees = {dimension["name"]: dimension["degree"] for dimension in mesh["dimensions"]}
        offsets = {}
        for tensors in held.values():
            for name, pieces in tensors.items():
                offsets.setdefault(name, set()).update(offset for offset, _, _ in pieces)

        def part(rank: dict) -> int:
            shard, replica = (rank["shard"], rank["replicate"]) if "shard" in rank else (rank["data"], 0)
            return (shard * degrees.get("replicate", 1) + replica) * degrees["context"] + rank["context"]

        for rank in mesh["ranks"]:
            own = held[rank["rank"]]
            layers = {int(name.split(".")[2]) for name in own if name.startswith("model.layers.")}
            each = 4 // degrees["pipeline"]
            self.assertEqual(layers, set(range(rank["pipeline"] * each, (rank["pipeline"] + 1) * each)), rank)
            for name, pieces in own.items():
                if len(offsets[name]) > 1:
                    self.assertEqual({offset for offset, _, _ in pieces}, {sorted(offsets[name])[rank["tensor"]]}, (name, rank))
        for first, second in itertools.permutations(mesh["ranks"], 2):
            if any(first[along] != second[along] for along in ("pipeline", "tensor")) or part(second) - part(first) != 1:
                continue
            earlier, later = held[first["rank"]], held[second["rank"]]
            both = set(earlier) & set(later)
            self.assertTrue(both, (first, second))
            for name in both:
                self.assertLessEqual(max(end for _, _, end in earlier[name]), min(begin for _, begin, _ in later[name]),
                                     (name, first, second))

    def assert_same_numbers(self, name: str, parallel: str):
        self.strata("run", self.job(f"{name}-alone", parallel), "--dir", self.folder / f"{name}-alone")
        expected = self.numbers(self.folder / f"{name}-alone")
        self.assertEqual(len(expected), STEPS)
        self.assertEqual(self.numbers(self.get(name)["directory"]), expected, name)

    def survive(self, parallel: str, devices: int = 1) -> dict:
        """Goes on after the death of one of its ranks, then of a node, whose ranks the spare one takes. Its mesh."""
        self.up(NODES, devices)
        self.strata("submit", self.job("job", parallel, spares=1))
        self.wait_for_epoch("job", 1, EVERY)
        os.kill(self.processes("strata-trainer")[-1], signal.SIGKILL)
        self.wait_for_epoch("job", 2, 4 * EVERY)
        lost = next(rank["node"] for rank in self.get("job")["ranks"] if NODES[rank["node"]] == "a")
        self.kill_node(lost)
        self.wait_for_epoch("job", 3)
        mesh = self.mesh("job")
        self.assertNotIn(lost, [rank["node"] for rank in mesh["ranks"]])
        self.strata("wait", "job", "--for=state=SUCCEEDED")
        job = self.get("job")
        self.assertEqual(job["epoch"], 3)
        self.assert_trained(mesh, job["directory"])
        self.assert_same_numbers("job", parallel)
        self.down()
        return mesh

    def test_tensor_groups_go_on_after_the_death_of_a_rank_and_of_a_node(self):
        self.survive(TENSOR)

    def test_pipelines_go_on_after_the_death_of_a_rank_and_of_a_node(self):
        self.survive(PIPELINE)

    def test_context_groups_go_on_after_the_death_of_a_rank_and_of_a_node(self):
        self.survive(CONTEXT)

    def test_stages_between_shards_and_replicas_go_on_after_the_death_of_a_rank_and_of_a_node(self):
        mesh = self.survive(HYBRID, devices=2)
        order = [dimension["name"] for dimension in mesh["dimensions"] if dimension["degree"] > 1]
        self.assertEqual(order, ["shard", "pipeline", "replicate"])

    def test_a_mesh_makes_room_for_another_one_and_goes_on(self):
        self.up(["n0", "n1", "n2", "n3"], devices=1)
        (self.folder / "policy.yaml").write_text("scheduling: {min_run_seconds: 0}\n")
        self.strata("apply", self.folder / "policy.yaml")
        self.strata("submit", self.job("low", TENSOR))
        self.wait_for_epoch("low", 1, EVERY)
        self.strata("submit", self.job("high", PIPELINE, priority=5))
        for name, parallel in {"high": PIPELINE, "low": TENSOR}.items():
            self.strata("wait", name, "--for=state=SUCCEEDED")
            self.assert_same_numbers(name, parallel)
        low = self.get("low")
        self.assertEqual(low["epoch"], 2)
        self.assertEqual([(e["cause"], e["lost_steps"]) for e in low["events"] if e["epoch"] == 1], [("preempted", 0)])
        self.down()

    def test_a_mesh_that_lost_a_node_for_good_goes_on_with_fewer_data_ranks(self):
        for name, parallel, devices in (("tensor", TENSOR, 1), ("hybrid", HYBRID, 2)):
            self.cluster = self.folder / f"cluster-{name}"
            self.up(["n0", "n1", "n2", "n3"], devices)
            (self.folder / "policy.yaml").write_text("scheduling: {shrink_after_seconds: 1}\n")
            self.strata("apply", self.folder / "policy.yaml")
            self.strata("submit", self.job(name, parallel))
            self.wait_for_epoch(name, 1, EVERY)
            before = self.mesh(name)["ranks"]
            self.kill_node("n3")
            self.wait_for_epoch(name, 2)
            mesh = self.mesh(name)
            self.assertEqual(len(mesh["ranks"]), len(before) // 2)
            self.strata("wait", name, "--for=state=SUCCEEDED")
            self.assertEqual(self.get(name)["epoch"], 2)
            self.assert_trained(mesh, self.get(name)["directory"])
            self.assert_same_numbers(name, parallel)
            self.down()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
