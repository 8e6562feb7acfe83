"""What `parallel: auto` costs: the layout that it chooses against the best of all legal ones, measured.

Run by ./dev bench auto [--rounds N] [--steps N] [--jobs A,B] [--profile F] [--json FILE]. Calibrates this machine, lists
each job's layouts on its ranks (`strata plan JOB`) before anything is measured, and then runs every one of them once a
round; a layout's figure is the median of its steps of all rounds, without the first two of each run. Ends with 1 when a
choice is more than 10 % slower than the best. The machine should have nothing else to do.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

import calibrated_runs
from calibrated_runs import WARM_STEPS

LIMIT = 0.10
JOBS = {
    # name: (model, sequence, global batch, ranks)
    "narrow": ("family: llama, layers: 8, hidden: 256, heads: 4, ffn: 704, vocab: 4096", 128, 16, 2),
    "wide": ("family: llama, layers: 2, hidden: 768, heads: 12, ffn: 2048, vocab: 1024", 128, 8, 2),
    "vocabulary": ("family: llama, layers: 2, hidden: 320, heads: 5, ffn: 864, vocab: 16000", 128, 8, 2),
    "long": ("family: llama, layers: 4, hidden: 256, heads: 4, ffn: 704, vocab: 1024", 1024, 2, 2),
    "alone": ("family: gpt2, layers: 4, hidden: 384, heads: 6, ffn: 1536, vocab: 4096", 128, 16, 1),
}


def job(folder, name, steps) -> str:
    model, sequence, batch, ranks = JOBS[name]
    return f"""
name: {name}
model: {{{model}}}
data: {{train: [{{path: {folder}/text.txt}}]}}
train: {{steps: {steps}, sequence: {sequence}, global_batch: {batch}}}
parallel: auto
resources: {{ranks: {ranks}}}
checkpoint: {{every_steps: 1000000, keep: 1}}
"""


def layouts_of(options, path, profile) -> list:
    out = subprocess.run([options.strata, "plan", path, "--profile", profile, "--top", "1000", "-o", "json"], check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out)["plans"]


def measure(options, folder, name, profile) -> dict:
    path = folder / f"{name}.yaml"
    path.write_text(job(folder, name, options.steps + WARM_STEPS))
    layouts = layouts_of(options, path, profile)
    seen = [[] for _ in layouts]
    for _ in range(options.rounds):
        for layout, seconds in zip(layouts, seen):
            seconds += [step["seconds"] for step in calibrated_runs.run(options, path, profile, layout["set"])]
    medians = [statistics.median(seconds) for seconds in seen]
    best = min(range(len(layouts)), key=medians.__getitem__)
    text = lambda layout: ", ".join(f"{key} {value}" for key, value in layout["parallel"].items())
    print(f"{name}: {len(layouts)} layouts; chosen {text(layouts[0])}: {medians[0]:.4f} s (predicted "
          f"{layouts[0]['seconds']:.4f}); best {text(layouts[best])}: {medians[best]:.4f} s; "
          f"{100 * (medians[0] / medians[best] - 1):+.1f} %", flush=True)
    rows = [{"layout": text(layout), "predicted": layout["seconds"], "measured": median}
            for layout, median in zip(layouts, medians)]
    return {"job": name, "slower": medians[0] / medians[best] - 1, "layouts": rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4, help="measured steps of a run")
    parser.add_argument("--jobs", default=",".join(JOBS), help="only these")
    calibrated_runs.add_options(parser)
    options = parser.parse_args()
    jobs = calibrated_runs.chosen(parser, "job", options.jobs, JOBS)
    begin = time.monotonic()
    with calibrated_runs.calibrated(options) as (folder, profile):
        results = [measure(options, folder, each, profile) for each in jobs]
    worst = max(results, key=lambda result: result["slower"])
    print(f"worst: {worst['job']}, {100 * worst['slower']:+.1f} % (limit {100 * LIMIT:.0f} %); "
          f"{time.monotonic() - begin:.0f} s in all")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")
    return 1 if worst["slower"] > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
