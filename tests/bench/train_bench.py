"""Training speed against PyTorch's and against the machine's rate of matrix products, and memory against its prediction.

Run by ./dev bench train [--shape NAME…] [--precision f32|bf16…] [--rounds N] [--steps N] [--threads N] [--clock wall|cpu]
[--no-compile] [--alone] [--json FILE]. One rank's threads and PyTorch's on the same cores. Rounds alternate between this engine, PyTorch eager and
PyTorch compiled (tests/bench/train_bench_torch.py: transformers' classes with scaled-dot-product attention, fused AdamW,
gradients clipped): what else the machine does hits all of them. --clock cpu takes processor seconds over the threads,
which other work changes less; only with --threads 1, as waiting threads burn time on both sides. Shown are medians of the rounds and of the rounds'
ratios. Model FLOPs are 6 per parameter of the matrices and token (4 where they are frozen), and 6·layers·width·sequence
per token for causal attention (half of the full square), recomputation not counted; the rate of matrix products is
measured before and after in the same run.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "parity"))

import tokenizer_parity as parity  # noqa: E402

GPT2 = dict(family="gpt2", layers=12, hidden=768, heads=12, ffn=3072, vocab=50257, tied_embeddings="true")
LLAMA = dict(family="llama", layers=12, hidden=512, heads=8, kv_heads=8, ffn=1408, vocab=32000)
DEMO = dict(family="llama", layers=4, hidden=192, heads=6, kv_heads=2, ffn=512, vocab=256, tied_embeddings="true")
LORA = dict(rank=16, alpha=32, targets=["c_attn"])
SHAPES = {  # name: model, sequences of a step, their tokens, adapters
    "gpt2-4x512": (GPT2, 4, 512, None),
    "gpt2-2x1024": (GPT2, 2, 1024, None),
    "llama60m-8x512": (LLAMA, 8, 512, None),
    "llama60m-1x512": (LLAMA, 1, 512, None),
    "gpt2-lora-4x512": (GPT2, 4, 512, LORA),
    "demo": (DEMO, 4, 256, None),
}


def with_pytorch():
    """Runs this program again with PyTorch and transformers' models, from PyPI where they are not in the cache."""
    python = parity.CACHE / "venv" / "bin" / "python"
    if pathlib.Path(sys.prefix) == parity.CACHE / "venv":
        return
    if not python.exists():
        venv.create(parity.CACHE / "venv", with_pip=True)
    needed = ["torch", "transformers", "peft"]
    if subprocess.run([python, "-c", "import " + ", ".join(needed)], stderr=subprocess.DEVNULL).returncode != 0:
        subprocess.run([python, "-m", "pip", "install", "-q", "--no-cache-dir", *needed], check=True)
    os.execv(python, [str(python), *sys.argv])


def flops_per_token(model, sequence, lora) -> float:
    hidden, layers = model["hidden"], model["layers"]
    head = hidden // model["heads"]
    attention = hidden * head * (2 * model["heads"] + 2 * model.get("kv_heads", model["heads"]))
    products = 3 if model["family"] == "llama" else 2
    matrices = layers * (attention + products * hidden * model["ffn"]) + hidden * model["vocab"]
    adapters = layers * lora["rank"] * (hidden + 3 * hidden) if lora else 0
    return (4.0 if lora else 6.0) * matrices + 6.0 * adapters + 6.0 * layers * hidden * sequence


def matmul_rate(bench, threads, clock) -> float:
    """FLOP/s of square products of 1024 and 2048: the best, of our own and of the library's."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([bench, "--benchmark_filter", "matmul/square/(1024|2048)/", "--seconds", "0.5", "--threads",
                        str(threads), "--clock", clock, "--json", file.name], check=True, stdout=subprocess.DEVNULL)
        found = json.loads(pathlib.Path(file.name).read_text())["kernels"]
    return max(kernel["flops_per_second"] for kernel in found)


def write_text(path):
    """Two megabytes of words: the bytes do not matter for the speed."""
    words = (ROOT / "README.md").read_text() + (ROOT / "docs/life_of_a_step.md").read_text()
    path.write_text((words * (2_000_000 // len(words) + 1))[:2_000_000])


class Ours:
    """A job of a few steps each time it is asked."""

    def __init__(self, shape, precision, options, folder, text):
        model, batch, sequence, lora = SHAPES[shape]
        lines = ["model:"] + [f"  {key}: {value}" for key, value in model.items()]
        lines += ["data:", f"  train: [{{path: {text}}}]", "train:", f"  sequence: {sequence}",
                  f"  global_batch: {batch}", f"  micro_batch: {batch}"]
        if precision != "f32":
            lines += [f"  precision: {precision}"]
        if lora:
            lines += ["  method: lora", f"  lora: {json.dumps(lora)}"]
        lines += ["checkpoint: {every_steps: 1000000, keep: 1}"]
        self.folder, self.options, self.rounds, self.records = folder, options, 0, []
        self.job = folder / f"{shape}-{precision}.yaml"
        self.job.write_text("\n".join(lines) + "\n")

    def run(self, steps) -> tuple:
        """Median seconds of a step but the first, and processor seconds of all."""
        self.rounds += 1
        metrics, place = self.folder / "metrics.jsonl", self.folder / f"{self.job.stem}-{self.rounds}"
        metrics.unlink(missing_ok=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([ROOT / "out/bin/strata", "run", self.job, "--dir", place, "--metrics", metrics, "-q", "--set",
                               f"train.steps={steps}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(["rm", "-rf", place], check=True)
        if done.returncode != 0:
            raise RuntimeError(done.stdout.strip().splitlines()[-1])
        records = [json.loads(line) for line in metrics.read_text().splitlines()][1:]
        self.records += records
        return (statistics.median(record["seconds"] for record in records),
                after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    def round(self) -> float:
        steps = self.options.steps
        if self.options.clock == "wall":
            return self.run(steps + 1)[0]
        return (self.run(steps + 2)[1] - self.run(2)[1]) / steps / self.options.threads

    def memory(self) -> str:
        memory = self.records[-1]["memory"]["host"]
        seen = memory["measured_bytes"] - memory["overhead_bytes"]
        return f"memory predicted {memory['predicted_bytes'] / 2**20:.1f} MiB, seen {seen / 2**20:.1f} MiB"

    def purposes(self) -> dict:
        found = [{key: sum(value.get(k, 0) for k in ("compute_seconds", "exposed_seconds"))
                  for key, value in record.get("purposes", {}).items()} for record in self.records]
        keys = {key for purpose in found for key in purpose}
        return {key: statistics.median(p.get(key, 0) for p in found) for key in keys}


class Theirs:
    """The process that has PyTorch, asked for one of its modes."""

    def __init__(self, shape, precision, options, modes):
        model, batch, sequence, lora = SHAPES[shape]
        spec = dict(model=model, batch=batch, sequence=sequence, lora=lora, precision=precision, modes=modes,
                    steps=options.steps, threads=options.threads, clock=options.clock)
        self.process = subprocess.Popen([sys.executable, ROOT / "tests/bench/train_bench_torch.py", json.dumps(spec)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.version = self.process.stdout.readline().strip()

    def round(self, mode) -> float:
        print(mode, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(shape, precision, options, folder, text, bench) -> dict:
    model, batch, sequence, lora = SHAPES[shape]
    modes = [] if options.alone else ["eager"] if options.no_compile else ["eager", "compiled"]
    before = matmul_rate(bench, options.threads, options.clock)
    ours = Ours(shape, precision, options, folder, text)
    theirs = Theirs(shape, precision, options, modes) if modes else None
    seconds = {side: [] for side in ["strata", *modes]}
    for turn in range(options.rounds):
        for side in list(seconds) if turn % 2 == 0 else reversed(seconds):
            seconds[side].append(ours.round() if side == "strata" else theirs.round(side))
    if theirs:
        theirs.close()
    after = matmul_rate(bench, options.threads, options.clock)
    flops, rate = flops_per_token(model, sequence, lora) * batch * sequence, (before + after) / 2
    result = {"shape": shape, "precision": precision, "matmul_flops_per_second": [before, after], "sides": {}}
    print(f"{shape} {precision}, threads {options.threads}, {options.clock} clock: products {before / 1e9:.0f} and {after / 1e9:.0f} GFLOP/s, load {os.getloadavg()[0]:.1f}"
          + (f", PyTorch {theirs.version}" if theirs else ""))
    for side, times in seconds.items():
        median = statistics.median(times)
        ratio = statistics.median(b / a for a, b in zip(seconds["strata"], times))
        result["sides"][side] = {"seconds": times, "tokens_per_second": batch * sequence / median, "ratio": ratio,
                                 "share": flops / median / rate}
        print(f"  {side:9} {median:8.3f} s a step {batch * sequence / median:8.0f} tokens/s, share of the rate "
              f"{flops / median / rate:.2f}" + ("" if side == "strata" else f", strata is {ratio:.2f} x"))
    result["purpose_seconds"] = ours.purposes()
    print(f"  {ours.memory()}")
    for key, value in sorted(result["purpose_seconds"].items(), key=lambda item: -item[1]):
        print(f"    {key:18} {value:8.4f} s {100 * value / statistics.median(seconds['strata']):5.1f} %")
    sys.stdout.flush()
    return result


def main():
    parser = argparse.ArgumentParser(prog="./dev bench train", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=list(SHAPES), nargs="*", default=[name for name in SHAPES if name != "demo"])
    parser.add_argument("--precision", choices=["f32", "bf16"], nargs="*", default=["f32"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="of each side in a round")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--alone", action="store_true", help="without PyTorch")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    bench = os.environ.get("STRATA_KERNELS_BENCH")
    if not bench:
        sys.exit("train_bench: run it by ./dev bench train, which builds what it needs")
    if options.clock == "cpu" and options.threads != 1:
        sys.exit("train_bench: --clock cpu needs --threads 1")
    if not options.alone:
        with_pytorch()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:options.threads])
    results = []
    with tempfile.TemporaryDirectory(prefix="strata-bench-") as folder:
        folder = pathlib.Path(folder)
        text = folder / "text.txt"
        write_text(text)
        for shape in options.shape:
            for precision in options.precision:
                try:
                    results.append(measure(shape, precision, options, folder, text, bench))
                except RuntimeError as error:
                    print(f"{shape} {precision}: {error}", flush=True)
    if options.json:
        cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
        options.json.write_text(json.dumps({"cpu": cpu and cpu.group(1), "cores": os.cpu_count(), "results": results},
                                           indent=1) + "\n")


if __name__ == "__main__":
    main()
