"""Whether it is right: kernels against their references, jobs against the CPU's, a model that learns."""

import concurrent.futures
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import time

import jobs

TRAIN = {"sequence": 64, "global_batch": 4, "micro_batch": 2, "seed": 1, "schedule": {"name": "constant", "warmup_steps": 1}}
LLAMA = dict(family="llama", layers=4, hidden=256, heads=8, kv_heads=2, ffn=704, vocab=1024, context=64)
GPT2 = dict(family="gpt2", layers=4, hidden=256, heads=4, ffn=1024, vocab=1024, context=64, tied_embeddings=True)
QWEN = LLAMA | dict(family="qwen2")
SMALL_STATES = {"precision": "bf16", "optimizer": {"master": "split", "state": "8bit"}}
SMALLEST_STATES = {"precision": "bf16", "optimizer": {"master": "split", "state": "8bit", "gradient": "bf16"}}
ALL_KEPT = {"parallel": {"recompute": {"save": ["all"]}}}
ON_HOST = {"memory": {"place": {"parameters": "host", "optimizer": "host"}, "stream": {"resident": 2}}}
# How far losses may be apart (relative), in the first steps and later: sums in another order differ in their last bit, and
# training makes of that ten times as much every few steps (f32 on an H200: 6e-9 in the first, 1e-5 in the twentieth).
EARLY_STEPS = 5
WHOLE = ["gpu_standin_test.py", "gpu_calibrate_test.py"]
F32, BF16 = (1e-6, 1e-4), (5e-3, 5e-3)
# Name: model, more of `train`, more of the job, how far losses may be apart.
PARITY = {
    "llama, f32": (LLAMA, {}, {}, F32),
    "gpt2, f32": (GPT2, {}, {}, F32),
    "qwen2, f32": (QWEN, {}, {}, F32),
    "llama, bf16": (LLAMA, {"precision": "bf16"}, {}, BF16),
    "gpt2, bf16, split masters, moments of 8 bits": (GPT2, SMALL_STATES, {}, BF16),
    "llama, bf16, gradients too, all values kept": (LLAMA, SMALLEST_STATES, ALL_KEPT, BF16),
    "llama, f32, parameters and optimizer on the host": (LLAMA, {}, ON_HOST, F32),
    "llama, f32, recomputed": (LLAMA, {}, {"parallel": {"recompute": "full"}}, F32),
}


def run_twin(program: pathlib.Path, env: dict, seconds: float, folder: pathlib.Path) -> dict:
    """A GoogleTest program: how many of its tests passed, were skipped, and which failed."""
    report = folder / f"{program.name}.json"
    begin = time.monotonic()
    row = {"test": program.name, "passed": 0, "skipped": 0, "failed": [], "why": ""}
    try:
        done = subprocess.run([program, f"--gtest_output=json:{report}"], env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=max(seconds, 1), text=True, errors="replace", cwd=folder)
    except subprocess.TimeoutExpired:
        return row | {"failed": ["all"], "why": f"not done within {seconds:.0f} s"}
    try:
        suites = json.loads(report.read_text())["testsuites"]
    except (OSError, ValueError):
        lines = done.stdout.strip().splitlines() or [f"ended with {done.returncode}"]
        return row | {"failed": ["all"], "why": lines[-1]}
    for case in (case for suite in suites for case in suite["testsuite"]):
        if "failures" in case:
            row["failed"].append(f"{case['classname']}.{case['name']}")
            row["why"] = row["why"] or case["failures"][0]["failure"][:400]
        elif case.get("result") == "SKIPPED":
            row["skipped"] += 1
        else:
            row["passed"] += 1
    if done.returncode != 0 and not row["failed"]:
        row |= {"failed": ["all"], "why": f"ended with {done.returncode}"}
    return row | {"seconds": round(time.monotonic() - begin, 1)}


def kernels(context) -> list:
    """The tests' twins, as many at a time as there are cores: their references are computed by the CPU."""
    programs = sorted((context.root / "tests").iterdir())
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = list(pool.map(lambda p: run_twin(p, context.env, context.left(), context.folder), programs))
    for row in rows:
        row["state"] = "failed" if row["failed"] else "passed" if row["passed"] else "skipped"
    return rows


def distances(ours: list, theirs: list) -> list:
    """Relative distances of two runs' losses, step by step; infinite where one has fewer steps or no number."""
    pairs = [(a["loss"], b["loss"]) for a, b in zip(ours, theirs)]
    if len(ours) != len(theirs) or not pairs or not all(math.isfinite(x) for pair in pairs for x in pair):
        return [math.inf]
    return [abs(a - b) / abs(b) for a, b in pairs]


def models(context) -> list:
    """Jobs on the GPU against the same on the CPU, four at a time."""
    cases = PARITY if not context.standin else {"tiny llama, f32": (jobs.TINY, {}, {}, F32)}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        whole = [] if context.standin else [pool.submit(processes, context, script) for script in WHOLE]
        return list(pool.map(lambda case: one_model(context, *case), cases.items())) + [each.result() for each in whole]


def processes(context, script: str) -> dict:
    """What the stand-in proves of whole jobs, here: tiers, adapters, f16, checkpoints, eval, generate, calibrations."""
    row = {"job": f"whole jobs ({script})", "steps": None, "bounds": (), "state": "failed"}
    programs = [context.root / "bin" / name for name in ("strata", "strata-worker", "strata-trainer", "strata-trainer-gpu")]
    try:
        done = subprocess.run([sys.executable, "-B", context.root / "jobs" / script, *programs], env=context.env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=context.left(), cwd=context.folder)
    except subprocess.TimeoutExpired:
        return row | {"why": "not done in time"}
    failed = re.findall(r"^(?:FAIL|ERROR): (\w+)", done.stdout, re.M)
    problems = re.findall(r"^\w*Error: .*", done.stdout, re.M)
    if done.returncode != 0:
        return row | {"why": "; ".join(failed + problems)[:600] or f"ended with {done.returncode}"}
    return row | {"state": "passed", "why": done.stdout.strip().splitlines()[-1]}


def one_model(context, name: str, case: tuple) -> dict:
    model, more_train, more, bound = case
    steps = 2 if context.standin else 20
    row = {"job": name, "steps": steps, "bounds": bound}
    train = TRAIN | more_train | {"steps": steps}
    if context.standin:
        train |= {"sequence": 16, "global_batch": 2}
    runner = context.jobs.apart(name.replace(" ", "-"))
    try:
        gpu = runner.run("gpu", model, train, context.left(120), more=more)
        cpu = runner.run("cpu", model, train, context.left(120), more=more)
        apart = distances(gpu, cpu)
        row |= {"early": max(apart[:EARLY_STEPS]), "late": max(apart), "losses": [record["loss"] for record in gpu]}
        row["state"] = "passed" if row["early"] <= bound[0] and row["late"] <= bound[1] else "failed"
    except jobs.JobError as error:
        row |= {"state": "failed", "why": str(error)}
    return row


def training(context) -> list:
    """GPT-2 124M on phrases that repeat: its loss falls well below that of a guess, which is where it begins."""
    model, steps = (jobs.TINY, 6) if context.standin else (jobs.GPT2_124M, 150)
    train = {"steps": steps, "sequence": 64 if context.standin else 1024, "global_batch": 1 if context.standin else 16,
             "micro_batch": 1 if context.standin else 16, "precision": "f32" if context.standin else "bf16",
             "optimizer": {"learning_rate": 1e-2 if context.standin else 6e-4}, "schedule": {"warmup_steps": steps // 5}}
    row = {"model": "tiny" if context.standin else "GPT-2 124M", "steps": steps}
    try:
        records = context.jobs.run("gpu", model, train, context.left(), stop_after=steps)
        losses = [record["loss"] for record in records]
        guess = math.log(model["vocab"])
        fell = losses[-1] < (losses[0] if context.standin else 0.7 * guess)
        good = all(map(math.isfinite, losses)) and abs(losses[0] - guess) < 0.1 * guess and fell
        row |= {"first_loss": losses[0], "last_loss": losses[-1], "losses": losses, "state": "passed" if good else "failed"}
    except jobs.JobError as error:
        row |= {"state": "failed", "why": str(error)}
    return [row]
