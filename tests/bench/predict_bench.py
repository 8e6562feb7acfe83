"""Predicted step time against measured: calibrates this machine, then runs layouts of at most two ranks in rounds.

Run by ./dev bench predict [--rounds N] [--steps N] [--layouts A,B] [--explain] [--profile F] [--json FILE]. Each round
runs every layout once with `strata run`; a layout's figure is the median of its steps of all rounds, without the first
two of each run. Ends with 1 when a prediction is more than 10 % beside what was measured. The machine should have
nothing else to do, which `--profile` (of an earlier calibration) does not change.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

import calibrated_runs
from calibrated_runs import WARM_STEPS

LIMIT = 0.10
# 30 M parameters, so that products are most of a step; of shapes that no calibration measures.
MODEL = "family: llama, layers: 4, hidden: 640, heads: 10, kv_heads: 10, ffn: 1728, vocab: 8192, tied_embeddings: false"
SEQUENCE, BATCH = 128, 4  # of a step
LAYOUTS = {
    # name: (parallel section, sequences per rank and pass)
    "one": ("data: 1", 2),
    "recompute": ("data: 1, recompute: full", 2),
    "none": ("data: 2", 1),
    "zero1": ("data: 2, shard: zero1", 1),
    "zero2": ("data: 2, shard: zero2", 1),
    "zero3": ("data: 2, shard: zero3", 1),
    "layer_first": ("data: 2, shard: zero3, micro_order: layer_first", 1),
    "tensor": ("tensor: 2", 2),
    "1f1b": ("pipeline: 2, pipeline_schedule: 1f1b", 1),
    "zero_bubble": ("pipeline: 2, pipeline_schedule: zero_bubble", 1),
    "ring": ("context: 2, context_method: ring", 2),
    "all_gather": ("context: 2, context_method: all_gather", 2),
}


def job(folder, layout, steps) -> str:
    parallel, micro_batch = LAYOUTS[layout]
    return f"""
model: {{{MODEL}}}
data: {{train: [{{path: {folder}/text.txt}}]}}
train: {{steps: {steps}, sequence: {SEQUENCE}, global_batch: {BATCH}, micro_batch: {micro_batch}}}
parallel: {{{parallel}}}
checkpoint: {{every_steps: 1000000, keep: 1}}
"""


def run(options, folder, layout, profile) -> list:
    """The records of one run, without the first steps."""
    path = folder / "job.yaml"
    path.write_text(job(folder, layout, options.steps + WARM_STEPS))
    records = calibrated_runs.run(options, path, profile)
    if "predicted_seconds" not in records[-1]:
        sys.exit(f"predict: {layout}: the steps have no predicted_seconds: is the profile of this machine?")
    return records


def explain(layout, records):
    """What the prediction consists of, beside what was measured, of rank 0."""
    parts = ("compute_seconds", "exposed_seconds", "background_seconds")
    print(f"  {layout}: milliseconds of rank 0, predicted / measured")
    print(f"    {'purpose':16}" + "".join(f"{part.removesuffix('_seconds'):>20}" for part in parts))
    for purpose in sorted({name for record in records for name in record["purposes"]}):
        found = [record["purposes"].get(purpose, {}) for record in records]
        cells = []
        for part in parts:
            predicted = found[0].get("predicted", {}).get(part, 0)
            measured = statistics.median(each.get(part, 0) for each in found)
            cells.append(f"{1e3 * predicted:8.1f} / {1e3 * measured:8.1f}" if predicted + measured > 5e-5 else "-")
        print(f"    {purpose:16}" + "".join(f"{cell:>20}" for cell in cells))


def report(options, seen) -> list:
    print(f"{'layout':14}{'predicted s':>12}{'measured s':>12}{'ratio':>8}")
    rows = []
    for layout, records in seen.items():
        predicted = records[-1]["predicted_seconds"]
        measured = statistics.median(record["seconds"] for record in records)
        spread = [record["seconds"] for record in records]
        rows.append({"layout": layout, "predicted": predicted, "measured": measured, "ratio": predicted / measured})
        print(f"{layout:14}{predicted:12.4f}{measured:12.4f}{predicted / measured:8.3f}"
              f"   (steps {min(spread):.4f} ... {max(spread):.4f})")
        if options.explain:
            explain(layout, records)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5, help="measured steps of a run")
    parser.add_argument("--layouts", default=",".join(LAYOUTS), help="only these")
    parser.add_argument("--explain", action="store_true", help="also what predictions consist of")
    calibrated_runs.add_options(parser)
    options = parser.parse_args()
    layouts = calibrated_runs.chosen(parser, "layout", options.layouts, LAYOUTS)
    begin = time.monotonic()
    with calibrated_runs.calibrated(options) as (folder, profile):
        seen = {layout: [] for layout in layouts}
        for _ in range(options.rounds):
            for layout in layouts:
                seen[layout] += run(options, folder, layout, profile)
    rows = report(options, seen)
    worst = max(rows, key=lambda row: abs(row["ratio"] - 1))
    print(f"worst: {worst['layout']}, {100 * (worst['ratio'] - 1):+.1f} % (limit {100 * LIMIT:.0f} %); "
          f"{time.monotonic() - begin:.0f} s in all")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"layouts": rows}, indent=1) + "\n")
    return 1 if abs(worst["ratio"] - 1) > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
