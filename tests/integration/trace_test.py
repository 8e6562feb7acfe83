"""Real processes of `strata run`, traced: while they run, after they ended, after they were killed; and doctor's own run."""

import collections
import contextlib
import json
import os
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import real_processes

STEPS = 6


def span(event: dict) -> tuple:
    """Begin and end in nanoseconds, which microseconds of three decimals are exact in."""
    return round(event["ts"] * 1000), round(event["ts"] * 1000) + round(event["dur"] * 1000)


class TraceTest(real_processes.RealProcesses):
    def start(self, *arguments) -> subprocess.Popen:
        return subprocess.Popen([self.folder / "bin" / "strata", *map(str, arguments)], env=self.env, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def strata(self, *arguments) -> tuple:
        child = self.start(*arguments)
        out, err = child.communicate(timeout=real_processes.WAIT_SECONDS)
        return child.returncode, out, err

    def job(self, name: str, parallel: str, steps: int = STEPS):
        path = self.folder / f"{name}.yaml"
        path.write_text(f"""
model: {{family: llama, layers: 4, hidden: 48, heads: 4, kv_heads: 2, ffn: 96, vocab: 256, tied_embeddings: false}}
data: {{train: [{{path: {self.folder}/text.txt}}], validation: {{fraction: 0.1}}}}
train: {{steps: {steps}, sequence: 32, global_batch: 8, micro_batch: 1}}
parallel: {{{parallel}}}
evaluate: {{every_steps: 3, sequences: 4}}
""")
        return path

    def train(self, name: str, parallel: str):
        code, _, err = self.strata("run", self.job(name, parallel), "--dir", self.folder / name)
        self.assertEqual(code, 0, err)
        self.assertNotIn("traced", err)
        for line in (self.folder / name / "metrics.jsonl").read_text().splitlines():
            for tier in json.loads(line)["memory"].values():  # what tracing touches counts as overhead
                self.assertEqual(tier["arena_bytes"], tier["predicted_bytes"], name)

    def trace(self, name: str, *more) -> dict:
        path = self.folder / f"{name}.json"
        code, _, err = self.strata("trace", self.folder / name, "-o", path, *more)
        self.assertEqual(code, 0, err)
        self.assertIn("perfetto", err)
        return json.loads(path.read_text())

    # Checks of a trace

    def rows(self, trace: dict) -> dict:
        """Slices by process name and thread name; every slice is well formed."""
        names, threads, rows = {}, {}, collections.defaultdict(list)
        for event in trace["traceEvents"]:
            if event["ph"] == "M" and event["name"] == "process_name":
                names[event["pid"]] = event["args"]["name"]
            if event["ph"] == "M" and event["name"] == "thread_name":
                threads[event["pid"], event["tid"]] = event["args"]["name"]
        for event in trace["traceEvents"]:
            if event["ph"] == "X":
                self.assertGreaterEqual(event["ts"], 0)
                self.assertGreaterEqual(event["dur"], 0)
                rows[names[event["pid"]], threads[event["pid"], event["tid"]]].append(event)
        self.assert_nested(rows)
        return rows

    def assert_nested(self, rows: dict):
        for row, events in rows.items():
            open_ends = []
            for event in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
                begin, end = span(event)
                while open_ends and open_ends[-1] <= begin:
                    open_ends.pop()
                if open_ends:
                    self.assertLessEqual(end, open_ends[-1], (row, event))
                open_ends.append(end)

    def instructions(self, rows: dict, process: str) -> dict:
        """Of each step: the instructions that have a slice."""
        found = collections.defaultdict(set)
        for (name, _), events in rows.items():
            for event in events:
                if name == process and "instruction" in event["args"] and "step" in event["args"]:
                    found[event["args"]["step"]].add((event["args"]["instruction"]))
        return found

    def assert_complete(self, rows: dict, ranks: list, steps: list):
        for rank in ranks:
            measured, predicted = self.instructions(rows, rank), self.instructions(rows, rank.replace(" (", " predicted (", 1))
            self.assertEqual(sorted(measured), steps, rank)
            self.assertEqual(sorted(predicted), steps, rank)
            for step in steps:
                self.assertEqual(measured[step], set(range(len(measured[step]))), rank)
                self.assertEqual(measured[step], predicted[step], rank)
            marks = [e["name"] for e in rows[rank, "steps"]]
            self.assertEqual(marks, [f"step {s}" for s in steps])

    def arrows(self, trace: dict, name: str) -> list:
        """(begin, end) of each, as events."""
        ends = collections.defaultdict(dict)
        for event in trace["traceEvents"]:
            if event["ph"] in "sf" and event["name"] == name:
                self.assertNotIn(event["ph"], ends[event["id"]])
                ends[event["id"]][event["ph"]] = event
        for pair in ends.values():
            self.assertEqual(set(pair), {"s", "f"})
            self.assertLessEqual(pair["s"]["ts"], pair["f"]["ts"])
        return [(pair["s"], pair["f"]) for pair in ends.values()]

    def slice_at(self, trace: dict, end: dict) -> dict:
        """The innermost slice that an arrow's end lies in."""
        at = round(end["ts"] * 1000)
        inside = [e for e in trace["traceEvents"] if e["ph"] == "X" and (e["pid"], e["tid"]) == (end["pid"], end["tid"])
                  and span(e)[0] <= at < span(e)[1]]
        return min(inside, key=lambda e: e["dur"])

    # Tests

    def test_a_pipeline_shows_every_instruction_and_each_message_from_its_send_to_its_receive(self):
        self.train("pipeline", "pipeline: 2")
        trace = self.trace("pipeline", "--steps", "4-5")
        rows = self.rows(trace)
        self.assert_complete(rows, ["rank 0 (pipeline 0)", "rank 1 (pipeline 1)"], [4, 5])
        self.assertIn("rates", trace["otherData"]["predicted_from"])
        measured = {e["pid"] for e in trace["traceEvents"] if e["ph"] == "M" and e["name"] == "process_name"
                    and "predicted" not in e["args"]["name"]}
        sends = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["args"].get("op") == "send"]
        arrows = self.arrows(trace, "message")
        self.assertEqual(len(arrows), len(sends))
        for begin, end in arrows:
            send, receive = self.slice_at(trace, begin), self.slice_at(trace, end)
            self.assertEqual((send["args"]["op"], receive["args"]["op"]), ("send", "receive"))
            self.assertEqual(send["args"]["bytes"], receive["args"]["bytes"])
            self.assertEqual(send["args"]["step"], receive["args"]["step"])
            self.assertEqual(begin["pid"] in measured, end["pid"] in measured)
            self.assertNotEqual(begin["pid"], end["pid"])
            self.assertGreaterEqual(span(receive)[1], span(send)[0])

    def test_zero1_shows_collectives_with_their_members_and_the_evaluations_between(self):
        self.train("zero1", "data: 2, shard: zero1")
        trace = self.trace("zero1")
        rows = self.rows(trace)
        ranks = ["rank 0 (data 0)", "rank 1 (data 1)"]
        self.assert_complete(rows, ranks, list(range(1, STEPS + 1)))
        self.assertTrue(any(e["args"].get("program") == "evaluate" for e in rows[ranks[0], "compute"]))
        arrows = self.arrows(trace, "collective")
        self.assertTrue(arrows)
        for begin, end in arrows:
            last, other = self.slice_at(trace, begin), self.slice_at(trace, end)
            self.assertEqual(last["args"]["instruction"], other["args"]["instruction"])
            self.assertEqual(last["args"]["group"], other["args"]["group"])
            self.assertGreaterEqual(last["ts"], other["ts"])

    def test_steps_that_are_not_kept_and_damaged_files_are_refused(self):
        self.train("job", "data: 1")
        code, _, err = self.strata("trace", self.folder / "job", "--steps", "5-9", "-o", self.folder / "x.json")
        self.assertEqual(code, 2)
        self.assertIn(f"1-{STEPS}", err)
        path = self.folder / "job" / "trace" / "rank-0.trace"
        good = path.read_bytes()
        path.write_bytes(good[:300] + b"x" + good[301:])
        code, _, err = self.strata("trace", self.folder / "job", "-o", self.folder / "x.json")
        self.assertEqual(code, 2)
        self.assertIn(f"{path}: byte ", err)
        code, _, err = self.strata("trace", self.folder / "bin", "-o", self.folder / "x.json")
        self.assertEqual(code, 2, err)
        self.assertFalse((self.folder / "x.json").exists())

    def test_a_job_is_traced_while_it_runs_and_after_it_was_killed(self):
        child = self.start("run", self.job("long", "data: 2, shard: zero3", 100000), "--dir", self.folder / "long")
        self.addCleanup(child.communicate)
        path = self.folder / "long" / "metrics.jsonl"
        records = lambda: path.read_text().count("\n") if path.exists() else 0
        self.wait_for(lambda: records() >= 3 or child.poll() is not None, "three steps")
        running = self.rows(self.trace("long"))
        self.assertIn("rank 1 (data 1)", {process for process, _ in running})
        for pid in self.processes("strata-trainer"):
            with contextlib.suppress(ProcessLookupError):  # a rank ends itself when its peer is gone
                os.kill(pid, signal.SIGKILL)
        child.wait()
        killed = self.trace("long")
        steps = sorted(self.instructions(self.rows(killed), "rank 1 (data 1)"))
        self.assert_complete(self.rows(killed), ["rank 0 (data 0)", "rank 1 (data 1)"], steps)
        self.assertGreaterEqual(steps[-1], 3)

    def test_doctor_measures_overlap_and_can_leave_it_out(self):
        code, out, err = self.strata("doctor", "-o", "json")
        found = {check["name"]: check for check in json.loads(out)["checks"]}
        self.assertRegex(found["overlap"]["value"], r"\d+ % of .* communication hidden|not measured: no 3 steps", err)
        code, out, err = self.strata("doctor", "--quick", "-o", "json")
        self.assertNotIn("overlap", {check["name"] for check in json.loads(out)["checks"]})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
