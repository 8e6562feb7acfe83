"""Training speed as a share of the machine's measured rate of matrix products, and memory against its prediction.

Run by ./dev bench train [--model demo|124m] [--steps N] [--json FILE]. One rank, all cores as its threads. Model FLOPs
are 6 per parameter of the matrices and token, and 6·layers·width·sequence per token for causal attention (half of the
full square), recomputation not counted; the rate of matrix products is measured before and after in the same run.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = {
    # name: (model section, sequence, sequences per step and pass, steps)
    "demo": (dict(layers=4, hidden=192, heads=6, kv_heads=2, ffn=512, vocab=256, tied_embeddings="true"), 256, 8, 4, 30),
    "124m": (dict(layers=12, hidden=768, heads=12, kv_heads=12, ffn=2048, vocab=50304, tied_embeddings="true"), 512, 4,
             4, 5),
}


def flops_per_token(model, sequence) -> float:
    head = model["hidden"] // model["heads"]
    attention = model["hidden"] * head * (2 * model["heads"] + 2 * model["kv_heads"])
    matrices = model["layers"] * (attention + 3 * model["hidden"] * model["ffn"]) + model["hidden"] * model["vocab"]
    return 6.0 * matrices + 6.0 * model["layers"] * model["hidden"] * sequence


def matmul_rate(bench) -> float:
    """FLOP/s of square products of 1024 and 2048, with all threads: the best, of our own and of the library's."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([bench, "--benchmark_filter", "matmul/square/(1024|2048)/", "--seconds", "1", "--json",
                        file.name], check=True, stdout=subprocess.DEVNULL)
        found = json.loads(pathlib.Path(file.name).read_text())["kernels"]
    return max(kernel["flops_per_second"] for kernel in found)


def write_text(path):
    """Two megabytes of words: the bytes do not matter for the speed."""
    words = (ROOT / "README.md").read_text() + (ROOT / "docs/life_of_a_step.md").read_text()
    path.write_text((words * (2_000_000 // len(words) + 1))[:2_000_000])


def run(name, steps, folder, text) -> list:
    model, sequence, batch, micro, default_steps = MODELS[name]
    lines = ["model:", "  family: llama"] + [f"  {key}: {value}" for key, value in model.items()]
    lines += ["data:", f"  train: [{{path: {text}}}]", "train:", f"  steps: {steps or default_steps}",
              f"  sequence: {sequence}", f"  global_batch: {batch}", f"  micro_batch: {micro}",
              "checkpoint: {every_steps: 1000000, keep: 1}"]
    job, metrics = folder / f"{name}.yaml", folder / f"{name}.jsonl"
    job.write_text("\n".join(lines) + "\n")
    subprocess.run([ROOT / "out/bin/strata", "run", job, "--dir", folder / name, "--metrics", metrics, "-q"], check=True,
                   stdout=subprocess.DEVNULL)
    return [json.loads(line) for line in metrics.read_text().splitlines()]


def measure(name, options, folder, text, bench) -> dict:
    model, sequence, batch, _, _ = MODELS[name]
    before = matmul_rate(bench)
    records = run(name, options.steps, folder, text)
    after = matmul_rate(bench)
    seconds = statistics.median(record["seconds"] for record in records[1:])
    flops = flops_per_token(model, sequence) * batch * sequence
    rate = (before + after) / 2
    memory = records[-1]["memory"]["host"]
    seen = memory["measured_bytes"] - memory["overhead_bytes"]
    result = {"model": name, "tokens_per_second": batch * sequence / seconds, "seconds_per_step": seconds,
              "model_flops_per_second": flops / seconds, "matmul_flops_per_second": [before, after],
              "share": flops / seconds / rate, "predicted_bytes": memory["predicted_bytes"],
              "arena_bytes": memory["arena_bytes"], "measured_less_overhead_bytes": seen}
    purposes = [{key: sum(value.get(k, 0) for k in ("compute_seconds", "exposed_seconds"))
                 for key, value in record.get("purposes", {}).items()} for record in records[1:]]
    keys = {key for found in purposes for key in found}
    result["purpose_seconds"] = {key: statistics.median(p.get(key, 0) for p in purposes) for key in sorted(keys)}
    print(f"{name}: {seconds:.3f} s a step, {result['tokens_per_second']:.0f} tokens/s, {flops / seconds / 1e9:.0f} of "
          f"{rate / 1e9:.0f} GFLOP/s (before {before / 1e9:.0f}, after {after / 1e9:.0f}): share {result['share']:.2f}; "
          f"memory predicted {memory['predicted_bytes'] / 2**20:.1f} MiB, seen {seen / 2**20:.1f} MiB", flush=True)
    for key, value in sorted(result["purpose_seconds"].items(), key=lambda item: -item[1]):
        print(f"  {key:18} {value:8.4f} s {100 * value / seconds:5.1f} %")
    return result


def main():
    parser = argparse.ArgumentParser(prog="./dev bench train", description=__doc__)
    parser.add_argument("--model", choices=list(MODELS), action="append")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    bench = os.environ.get("STRATA_KERNELS_BENCH")
    if not bench:
        sys.exit("train_bench: run it by ./dev bench train, which builds what it needs")
    with tempfile.TemporaryDirectory(prefix="strata-bench-") as folder:
        folder = pathlib.Path(folder)
        text = folder / "text.txt"
        write_text(text)
        results = [measure(name, options, folder, text, bench) for name in options.model or MODELS]
    if options.json:
        cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
        options.json.write_text(json.dumps({"cpu": cpu and cpu.group(1), "cores": os.cpu_count(), "results": results},
                                           indent=1) + "\n")


if __name__ == "__main__":
    main()
