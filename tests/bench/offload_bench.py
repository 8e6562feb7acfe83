"""Training with everything on SSD, against DeepSpeed's ZeRO-Infinity and against what the machine allows.

Run by ./dev bench offload [--small] [--batch SEQUENCES TOKENS] [--precision f32|bf16…] [--rounds N] [--steps N]
[--threads N] [--directory DIR] [--alone] [--json FILE], or by ./dev bench offload --memory [--model NAME…].

GPT-2 of 124M, 4 sequences of 512 tokens (--batch: the fewer, the more the disk decides); weights, gradients, master
and moments on the disk of DIR. Four sides take turns: this engine and DeepSpeed (PyPI;
tests/bench/offload_bench_deepspeed.py), each with its offload and with everything in memory, on the same cores: what
else the machine does hits all of them. Steps are compared within rounds. Bytes come from /proc/PID/io, of this engine
also from its records; what I/O costs processors is what a step takes of them more than one in memory (/proc/PID/stat). Before and after each round the disk's rates are measured (strata calibrate --ssd); the ceiling
of a round is the longest of its step in memory, the bytes read at the rate of reads and those written at the rate of
writes. DeepSpeed compiles its operators at its first start, for a quarter of an hour on two busy cores; it needs
libaio-dev for them.

--memory: a few short steps of GPT-2 with 355M and 1.3B parameters in bf16 with f32 masters and moments: what is
predicted, what is allocated, and what the operating system sees, beside what ZeRO-Infinity's buffers take by its
source. 21 GiB of the disk.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "parity"))

import tokenizer_parity as parity  # noqa: E402

MIB = 2**20
GPT2 = dict(family="gpt2", layers=12, hidden=768, heads=12, ffn=3072, vocab=50257, tied_embeddings="true")
SMALL = GPT2 | dict(layers=4, hidden=256, heads=4, ffn=1024)
LARGE = {  # of --memory, and their sequence: one a step
    "gpt2-355m": (GPT2 | dict(layers=24, hidden=1024, heads=16, ffn=4096), 128),
    "gpt2-1.3b": (GPT2 | dict(layers=24, hidden=2048, heads=16, ffn=8192), 64),
}
SAMPLE_SECONDS = 0.01
BUSY_SECONDS = 0.1
BUILD_SECONDS = 1800  # DeepSpeed compiles its operators at the first start


def with_deepspeed():
    """Runs this program again with PyTorch, transformers' models and DeepSpeed, from PyPI where they are not in the
    cache. Whether that worked."""
    if pathlib.Path(sys.prefix) == parity.CACHE / "venv":
        return
    python = parity.CACHE / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(parity.CACHE / "venv", with_pip=True)
    needed = ["torch", "transformers", "deepspeed"]
    found = "import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, sys.argv[1:])))"
    if subprocess.run([python, "-c", found, *needed]).returncode != 0:
        subprocess.run([python, "-m", "pip", "install", "-q", "--no-cache-dir", *needed], check=True)
    os.environ["PATH"] = f"{python.parent}:{os.environ['PATH']}"  # its ninja
    os.execv(python, [str(python), *sys.argv])


def parameters_of(model) -> int:
    hidden, inner = model["hidden"], model["ffn"]
    layer = 4 * hidden * hidden + 4 * hidden + 2 * hidden * inner + inner + hidden + 4 * hidden
    return model["layers"] * layer + (model["vocab"] + model["context"]) * hidden + 2 * hidden


def numbers(path, wanted) -> dict:
    """Of "name: number" lines."""
    lines = (line.split(":") for line in pathlib.Path(path).read_text().splitlines())
    return {key: int(rest.split()[0]) for key, rest in lines if key in wanted}


def processor_seconds(pid) -> float:
    """Of all threads so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # proc(5): utime, stime


class Watch:
    """What the operating system sees of one process: its bytes to and from the disk, its time on processors, its
    memory."""

    def __init__(self, pid):
        self.pid, self.samples, self.most = pid, [], {"VmHWM": 0, "VmRSS": 0, "RssAnon": 0, "VmLck": 0}
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def look(self):
        while not self.over.wait(SAMPLE_SECONDS):
            try:
                moved = numbers(f"/proc/{self.pid}/io", ("read_bytes", "write_bytes"))
                status = numbers(f"/proc/{self.pid}/status", self.most)
                spent = processor_seconds(self.pid)
            except (OSError, IndexError):
                return
            if not status:  # it has ended
                return
            self.samples.append((time.monotonic(), moved["read_bytes"], moved["write_bytes"], spent))
            for key, kib in status.items():
                self.most[key] = max(self.most[key], kib * 1024)

    def now(self) -> int:
        return len(self.samples)

    def between(self, begin, end) -> dict:
        """Samples by their numbers."""
        part = self.samples[max(begin - 1, 0):end]
        busiest, first = 0, 0
        for last in range(len(part)):
            while part[last][0] - part[first][0] > BUSY_SECONDS:
                first += 1
            busiest = max(busiest, part[last][1] + part[last][2] - part[first][1] - part[first][2])
        read, written, spent = (part[-1][k] - part[0][k] if part else 0 for k in (1, 2, 3))
        return {"read_bytes": read, "written_bytes": written, "busiest_bytes": busiest, "processor_seconds": spent}

    def close(self):
        self.over.set()
        self.thread.join()


def descendants(pid) -> list:
    parents = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = numbers(folder / "status", ("PPid",))["PPid"]
        except (OSError, ValueError, KeyError):
            continue
    found = [pid]
    for parent in found:
        found += [child for child, of in parents.items() if of == parent]
    return found[1:]


def trainer_of(process) -> int:
    for pid in descendants(process.pid):
        if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "strata-trainer":
            return pid
    raise RuntimeError("the job has no trainer")


def await_lines(process, path, count):
    while not path.exists() or path.read_text().count("\n") < count:
        if process.poll() is not None:
            raise RuntimeError(process.stdout.read().strip().splitlines()[-1])
        time.sleep(SAMPLE_SECONDS)


class Ours:
    """A job of a few steps each time it is asked."""

    def __init__(self, model, batch, sequence, precision, offload, options, folder):
        self.folder, self.options, self.offload, self.runs = folder, options, offload, 0
        train = {"sequence": sequence, "global_batch": batch, "micro_batch": batch, "precision": precision,
                 "optimizer": {"learning_rate": 1e-4}}
        data = {"train": [{"path": str(folder / "text.txt")}]}
        job = {"model": model | {"tied_embeddings": True}, "data": data, "train": train,
               "checkpoint": {"every_steps": 1000000, "keep": 1}}
        if offload:
            job["memory"] = {"ssd": [{"path": str(options.directory), "size": "64GiB"}],
                             "place": {"parameters": "ssd", "gradients": "ssd", "optimizer": "ssd"}}
            job["parallel"] = {"update_policy": "spooled", "spool": precision}
        self.name = f"{'ssd' if offload else 'memory'}-{precision}"
        self.job = folder / f"{self.name}.yaml"
        self.job.write_text(json.dumps(job))  # which is YAML

    def run(self, steps) -> dict:
        """Of the steps but the first, which finds no state to read, and the last, which also waits for its updates."""
        self.runs += 1
        place = self.folder / f"{self.name}-{self.runs}"
        metrics = place.with_suffix(".jsonl")
        command = [ROOT / "out/bin/strata", "run", self.job, "--dir", place, "--metrics", metrics, "-q",
                   "--set", f"train.steps={steps + 2}"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            await_lines(process, metrics, 1)
            watch = Watch(trainer_of(process))
            await_lines(process, metrics, steps + 1)
            watch.close()
        finally:
            # Before it writes a checkpoint as large as the model and its state.
            for pid in [*descendants(process.pid), process.pid]:
                os.kill(pid, signal.SIGKILL)
            process.wait()
        records = [json.loads(line) for line in metrics.read_text().splitlines()][1:]
        seen = watch.between(0, watch.now())
        shutil.rmtree(place)
        metrics.unlink()
        return {"seconds": [record["seconds"] for record in records], "records": records, "memory": watch.most} | seen


class Theirs:
    """A process with DeepSpeed, asked for some steps at a time."""

    def __init__(self, model, batch, sequence, precision, offload, options, folder):
        spec = dict(model=model, batch=batch, sequence=sequence, precision=precision, lora=None,
                    threads=options.threads, swap=str(options.directory) if offload else None)
        self.log = folder / f"deepspeed-{'ssd' if offload else 'memory'}.log"
        self.process = subprocess.Popen([sys.executable, ROOT / "tests/bench/offload_bench_deepspeed.py",
                                         json.dumps(spec)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log.open("w"), text=True,
                                        env=os.environ | {"MASTER_PORT": "29512" if offload else "29511"})
        self.watch = Watch(self.process.pid)
        late = threading.Timer(BUILD_SECONDS, self.process.kill)
        late.start()
        self.versions = self.answer()["versions"]
        late.cancel()
        self.ask(1)  # warm, and the first finds no state

    def answer(self) -> dict:
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"DeepSpeed ended with {self.process.wait()}: "
                               + " | ".join(self.log.read_text().strip().splitlines()[-3:]))
        return json.loads(line)

    def ask(self, steps) -> dict:
        print(steps, file=self.process.stdin, flush=True)
        return self.answer()

    def run(self, steps) -> dict:
        begin = self.watch.now()
        answer = self.ask(steps)
        return self.watch.between(begin, self.watch.now()) | answer | {"memory": dict(self.watch.most)}

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.watch.close()


def disk_rates(options, folder) -> tuple:
    """Bytes per second that the disk reads, writes, and moves both ways at once, at the queues' depth."""
    done = subprocess.run([ROOT / "out/bin/strata", "calibrate", "--ssd", options.directory, "--profile",
                           folder / "profile.textproto", "--quick", "-o", "json"], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL)
    rates = json.loads(done.stdout)["disks"][0]["rates"]
    return tuple(max(rate[f"{way}_bytes_per_second"] for rate in rates) for way in ("read", "write", "mixed"))


def take_turns(sides, options, folder) -> tuple:
    runs, rates = {name: [] for name in sides}, []
    for turn in range(options.rounds):
        before = disk_rates(options, folder)
        for name in list(sides) if turn % 2 == 0 else reversed(sides):
            runs[name].append(sides[name].run(options.steps))
            print(f"  round {turn + 1} {name:20} {statistics.median(runs[name][-1]['seconds']):8.2f} s a step, load "
                  f"{os.getloadavg()[0]:.1f}", flush=True)
        after = disk_rates(options, folder)
        rates.append(tuple(max(pair) for pair in zip(before, after)))
    return runs, rates


def ceilings(runs, rates) -> list:
    """Per round: the least that a step with everything on SSD takes."""
    found = []
    for resident, offloaded, (read, write, _) in zip(runs["strata memory"], runs["strata ssd"], rates):
        steps = len(offloaded["seconds"])
        found.append({"compute": statistics.median(resident["seconds"]),
                      "read": offloaded["read_bytes"] / steps / read,
                      "write": offloaded["written_bytes"] / steps / write})
    return found


def mixed_seconds(runs, rates) -> list:
    """Per round: what the bytes of a step take a disk at the rate that it moves both ways at once."""
    return [(run["read_bytes"] + run["written_bytes"]) / len(run["seconds"]) / mixed
            for run, (_, _, mixed) in zip(runs["strata ssd"], rates)]


def processor_seconds_per_gib(resident, offloaded) -> float:
    """What steps with everything on SSD cost processors more than those in memory, by the GiB that they move: threads
    of I/O, checksums, copies between buffers, waits that spin."""
    spent = [sum(run["processor_seconds"] for run in runs) / sum(len(run["seconds"]) for run in runs)
             for runs in (resident, offloaded)]
    moved = (sum(run["read_bytes"] + run["written_bytes"] for run in offloaded)
             / sum(len(run["seconds"]) for run in offloaded))
    return (spent[1] - spent[0]) / (moved / 2**30)


def step(run) -> float:
    return statistics.median(run["seconds"])


def median_ratio(above, below) -> float:
    return statistics.median(a / b for a, b in zip(above, below))


def show_side(name, runs, parameters) -> dict:
    steps = sum(len(run["seconds"]) for run in runs)
    shown = {"seconds": [step(run) for run in runs],
             "read_bytes_per_parameter": sum(run["read_bytes"] for run in runs) / steps / parameters,
             "written_bytes_per_parameter": sum(run["written_bytes"] for run in runs) / steps / parameters,
             "busiest_bytes": max(run["busiest_bytes"] for run in runs),
             "peak_bytes": max(run["memory"]["VmHWM"] for run in runs)}
    print(f"  {name:20} {statistics.median(shown['seconds']):8.2f} s a step ({min(shown['seconds']):.2f} to "
          f"{max(shown['seconds']):.2f}), read {shown['read_bytes_per_parameter']:5.1f} and written "
          f"{shown['written_bytes_per_parameter']:5.1f} B a parameter and step, busiest 100 ms "
          f"{shown['busiest_bytes'] / MIB:.0f} MiB, peak {shown['peak_bytes'] / MIB:.0f} MiB")
    return shown


def show_records(runs, parameters) -> dict:
    """What this engine's own records say of its steps on SSD."""
    records = [record for run in runs for record in run["records"]]
    ssd = [record["memory"]["ssd"] for record in records]
    moved = sum(tier["read_bytes"] + tier["written_bytes"] for tier in ssd)
    shown = {way: statistics.median(tier[f"{way}_bytes"] for tier in ssd) / parameters for way in ("read", "written")}
    text = f"    records: read {shown['read']:.1f} and written {shown['written']:.1f} B a parameter and step"
    if "processor_seconds" in ssd[0]:
        shown["processor_seconds_per_gib"] = sum(tier["processor_seconds"] for tier in ssd) / (moved / 2**30)
        text += f", {shown['processor_seconds_per_gib']:.3f} processor seconds per GiB"
    if "busiest_read_bytes" in ssd[0]:
        shown["busiest_bytes"] = max(tier["busiest_read_bytes"] + tier["busiest_written_bytes"] for tier in ssd)
        text += f", busiest 100 ms at most {shown['busiest_bytes'] / MIB:.0f} MiB"
    print(text)
    exposed = {purpose: statistics.median(record["purposes"].get(purpose, {}).get("exposed_seconds", 0)
                                          for record in records)
               for purpose in {name for record in records for name in record["purposes"]}}
    # Of the same steps, so that what else the machine does counts less than between two sides.
    waited = statistics.median(sum(purpose.get("exposed_seconds", 0) for purpose in record["purposes"].values())
                               / record["seconds"] for record in records)
    print(f"    compute waited {100 * waited:.1f} % of a step: " + ", ".join(
        f"{name} {seconds:.2f} s" for name, seconds in sorted(exposed.items(), key=lambda item: -item[1])
        if seconds > 0.005))
    return shown | {"exposed_seconds": exposed, "waited": waited} | show_memory(records[-1]["memory"])


def show_memory(memory) -> dict:
    """Of a CPU rank device and host are one process."""
    sums = {key: sum(memory[tier][key] for tier in ("device", "host") if tier in memory)
            for key in ("predicted_bytes", "arena_bytes", "measured_bytes", "overhead_bytes")}
    seen = sums["measured_bytes"] - sums["overhead_bytes"]
    device = memory.get("device", {"arena_bytes": 0})["arena_bytes"]
    print(f"    memory predicted {sums['predicted_bytes'] / MIB:.1f} MiB, allocated "
          f"{sums['arena_bytes'] / MIB:.1f} MiB (device {device / MIB:.1f}, host {(sums['arena_bytes'] - device) / MIB:.1f}), seen {seen / MIB:.1f} MiB "
          f"({seen / sums['predicted_bytes']:.3f} of it) over {sums['overhead_bytes'] / MIB:.1f} MiB of the process")
    return {"memory": sums | {"device_bytes": device}}


def open_sides(arguments, options) -> tuple:
    sides = {"strata memory": Ours(*arguments[:4], False, *arguments[4:]),
             "strata ssd": Ours(*arguments[:4], True, *arguments[4:])}
    versions = ""
    for name, offload in [] if options.alone else [("deepspeed memory", False), ("deepspeed ssd", True)]:
        try:
            sides[name] = Theirs(*arguments[:4], offload, *arguments[4:])
            versions = sides[name].versions
        except RuntimeError as error:
            print(f"  {name}: {error}", flush=True)
    return sides, versions


def compare(model, batch, sequence, precision, options, folder) -> dict:
    parameters = parameters_of(model)
    print(f"{parameters / 1e6:.1f} M parameters, {batch} x {sequence} tokens, {precision}, {options.threads} threads",
          flush=True)
    sides, versions = open_sides((model, batch, sequence, precision, options, folder), options)
    runs, rates = take_turns(sides, options, folder)
    for side in sides.values():
        if isinstance(side, Theirs):
            side.close()
    print(f"  {versions}; disk reads at {statistics.median(r for r, _, _ in rates) / 1e6:.0f} MB/s, writes at "
          f"{statistics.median(w for _, w, _ in rates) / 1e6:.0f} MB/s, both at once at "
          f"{statistics.median(m for _, _, m in rates) / 1e6:.0f} MB/s")
    result = {"parameters": parameters, "precision": precision, "versions": versions, "disk_rates": rates,
              "sides": {name: show_side(name, found, parameters) for name, found in runs.items()},
              "records": show_records(runs["strata ssd"], parameters)}
    seconds = {name: [step(run) for run in found] for name, found in runs.items()}
    parts = ceilings(runs, rates)
    result["ceilings"] = parts
    result["of_ceiling"] = median_ratio(seconds["strata ssd"], [max(part.values()) for part in parts])
    print("  ceiling: the longest of " + ", ".join(
        f"{name} {statistics.median(part[name] for part in parts):.2f} s" for name in parts[0])
        + f"; strata ssd takes {result['of_ceiling']:.2f} of it")
    result["mixed_seconds"] = mixed_seconds(runs, rates)
    print(f"  at the rate of both at once the disk needs {statistics.median(result['mixed_seconds']):.2f} s for a step")
    result["processor_seconds_per_gib"] = {
        side: processor_seconds_per_gib(runs[f"{side} memory"], runs[f"{side} ssd"])
        for side in ("strata", "deepspeed") if f"{side} memory" in runs and f"{side} ssd" in runs}
    print("  processor seconds a step more than in memory, per GiB moved: " + ", ".join(
        f"{side} {spent:.3f}" for side, spent in result["processor_seconds_per_gib"].items()))
    for name in seconds:
        if name.startswith("deepspeed"):
            ours = "strata " + name.split()[1]
            result[f"speed against {name}"] = median_ratio(seconds[name], seconds[ours])
            print(f"  {ours} is {result[f'speed against {name}']:.2f} x as fast as {name}")
    sys.stdout.flush()
    return result


def power_of_two(count) -> int:
    return 1 << (count - 1).bit_length()


def zero_infinity_bytes(model, parameters, exact) -> int:
    """Host buffers of DeepSpeed's ZeRO-3 with all on NVMe, on one rank in bf16, by its source (gradients accumulate in
    the model's type, 4 buffers of the optimizer, 5 of parameters, each as large as the largest tensor): what pinned
    memory of PyTorch rounds to powers of two, or exact sizes."""
    size = int if exact else power_of_two
    largest = model["vocab"] * model["hidden"]
    sub_group = min(parameters, 10**9)
    return (size(2 * parameters) + 4 * size(4 * sub_group) + size(5 * 2 * largest)
            + size(2 * min(10**9, parameters)) + size(2 * sub_group))


def memory_of(name, options, folder) -> dict:
    model, sequence = LARGE[name]
    model = model | {"context": sequence}
    parameters = parameters_of(model)
    print(f"{name}: {parameters / 1e6:.0f} M parameters, 1 x {sequence} tokens, bf16 with f32 master and moments, "
          "all on SSD", flush=True)
    run = Ours(model, 1, sequence, "bf16", True, options, folder).run(options.steps)
    record = run["records"][-1]
    result = {"model": name, "parameters": parameters, "seconds": run["seconds"]} | show_memory(record["memory"])
    formula = {kind: zero_infinity_bytes(model, parameters, kind == "exact") for kind in ("rounded", "exact")}
    peak = run["memory"]["VmHWM"]
    result |= {"peak_bytes": peak, "zero_infinity_bytes": formula, "system": run["memory"]}
    print(f"    the system's peak {peak / MIB:.1f} MiB; {step(run):.1f} s a step; ssd "
          f"{record['memory']['ssd']['arena_bytes'] / 2**30:.1f} GiB; ZeRO-Infinity's host buffers by formula "
          f"{formula['rounded'] / MIB:.0f} MiB (exact sizes {formula['exact'] / MIB:.0f})", flush=True)
    return result


def options_of() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench offload", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a model of 16 M for a quick try")
    parser.add_argument("--precision", choices=["f32", "bf16"], nargs="*", default=["f32"])
    parser.add_argument("--batch", type=int, nargs=2, help="sequences of a step and their tokens (4 512)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2, help="of each side in a round")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path("/var/tmp"), help="on the disk")
    parser.add_argument("--alone", action="store_true", help="without DeepSpeed")
    parser.add_argument("--memory", action="store_true", help="host memory of larger models instead")
    parser.add_argument("--model", choices=list(LARGE), nargs="*", default=list(LARGE), help="of --memory")
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


def main():
    options = options_of()
    if not options.alone and not options.memory:
        with_deepspeed()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:options.threads])
    results = []
    with tempfile.TemporaryDirectory(prefix="strata-offload-", dir=options.directory) as folder:
        folder = pathlib.Path(folder)
        options.directory = folder / "ssd"
        options.directory.mkdir()
        (folder / "text.txt").write_text((ROOT / "README.md").read_text() * 200)
        if options.memory:
            results = [memory_of(name, options, folder) for name in options.model]
        else:
            model = SMALL if options.small else GPT2
            batch, sequence = options.batch or ([4, 128] if options.small else [4, 512])
            results = [compare(model | {"context": sequence}, batch, sequence, precision, options, folder)
                       for precision in options.precision]
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
