"""How fast it is: training steps of known shapes beside PyTorch on the same shapes, and what the device reaches at most."""

import json
import pathlib
import re
import shutil
import statistics
import subprocess

import jobs
import kernel_times
from checks import ALL_KEPT, SMALLEST_STATES

MIXED = {"precision": "bf16"}
# Name: model, sequences, their tokens, Strata's `train`, PyTorch's numbers; and fewer layers where all do not fit.
SHAPES = {
    "GPT-2 124M": (jobs.GPT2_124M, 32, 1024, MIXED, "mixed", []),
    "Qwen2.5-1.5B": (jobs.QWEN_15B, 2, 4096, MIXED, "mixed", []),
    "Llama-3.1-8B": (jobs.LLAMA_8B, 1, 4096, SMALLEST_STATES, "bf16", [16, 8]),
}
TINY = {"tiny": (jobs.TINY, 2, 16, {}, "mixed", [1])}
WARM, COUNTED = 3, 8


def flops(model: dict, batch: int, sequence: int) -> float:
    """Of a step: 6 per parameter of the matrices and token; causal attention as half of the square."""
    hidden, layers = model["hidden"], model["layers"]
    size = model.get("head_size", hidden // model["heads"])
    attention = hidden * size * (2 * model["heads"] + 2 * model.get("kv_heads", model["heads"]))
    matrices = layers * (attention + (2 if model["family"] == "gpt2" else 3) * hidden * model["ffn"]) + hidden * model["vocab"]
    return batch * sequence * (6.0 * matrices + 6.0 * layers * size * model["heads"] * sequence)


def state_of(problem: str) -> str:
    return "does not fit" if re.search(r"out of memory|does not fit|cudaErrorMemoryAllocation|memory.device", problem) else "failed"


def run_strata(context, model: dict, batch: int, sequence: int, train: dict, runner=None, more: dict | None = None) -> list:
    """Records of steps but the first ones; the job is ended when there are enough."""
    settings = {"steps": 10000, "sequence": sequence, "global_batch": batch, "micro_batch": batch, **train}
    warm, counted = (1, 2) if context.standin else (WARM, COUNTED)
    settings["steps"] = warm + counted if context.standin else settings["steps"]
    records = (runner or context.jobs).run("gpu", model, settings, context.left(150), stop_after=warm + counted, more=more)
    return records[warm:warm + counted]


def of_strata(context, model: dict, batch: int, sequence: int, train: dict, runner=None, more: dict | None = None) -> dict:
    """Seconds of a step, and bytes."""
    taken = run_strata(context, model, batch, sequence, train, runner, more)
    device = taken[-1].get("memory", {}).get("device", {})
    return {"seconds": statistics.median(record["seconds"] for record in taken),
            "peak_bytes": device.get("measured_bytes") or device.get("arena_bytes", 0),
            "predicted_bytes": device.get("predicted_bytes", 0),
            "predicted_seconds": taken[-1].get("predicted_seconds")}


def of_other_strata(context, shape: tuple, env: dict, more: dict) -> dict:
    """The same with another environment or with more in its job."""
    try:
        return of_strata(context, *shape, context.jobs.watched(env), more)
    except jobs.JobError as error:
        return {"error": str(error)}


def ask_torch(context, spec: dict) -> dict:
    """Torch sees nothing of the pack's libraries."""
    try:
        done = subprocess.run([context.torch, pathlib.Path(__file__).with_name("torch_side.py"), json.dumps(spec)],
                              capture_output=True, text=True, timeout=context.left(150))
        return json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {"error": "not done in time"}
    except ValueError:
        return {"error": (done.stderr.strip().splitlines() or ["no answer"])[-1][:200]}


def ceilings(context) -> list:
    """Rates of products at the shapes that benchmarks have, and of copies."""
    if not context.torch:
        return [{"what": "products and copies", "state": "left out", "why": context.torch_why}]
    shapes = []
    for model, batch, sequence, *_ in SHAPES.values():
        rows, hidden = batch * sequence, model["hidden"]
        shapes += [(rows, model["ffn"], hidden), (rows, hidden, model["ffn"]), (rows, hidden, hidden)]
    found = ask_torch(context, {"what": "ceilings", "shapes": shapes + [(8192, 8192, 8192)]})
    if "error" in found:
        return [{"what": "products and copies", "state": "failed", "why": found["error"]}]
    context.rate = max(found["tflops"].values()) * 1e12
    rows = [{"what": f"bf16 product {shape}", "value": f"{rate:.0f} TFLOP/s", "state": "measured"}
            for shape, rate in found["tflops"].items()]
    return rows + [{"what": "copy on the device", "value": f"{found['copy_bytes_per_second'] / 1e12:.2f} TB/s",
                    "state": "measured"}]


def calibration(context) -> list:
    """`strata calibrate --device gpu`, whose profile then predicts the steps of `speed`."""
    command = [context.root / "bin/strata", "calibrate", "--device", "gpu", "-o", "json"]
    try:
        done = subprocess.run(command, env=context.jobs.env, capture_output=True, text=True, timeout=context.left(300))
        found = json.loads(done.stdout) if done.returncode == 0 else {}
    except subprocess.TimeoutExpired:
        return [{"what": "calibration", "state": "failed", "why": "not done in time"}]
    told = done.stderr.strip().splitlines()
    if not found:
        return [{"what": "calibration", "state": "failed", "why": "; ".join(told[-2:])}]
    context.out.mkdir(parents=True, exist_ok=True)
    shutil.copy(found["profile"], context.out / "profile.textproto")
    device, = found["devices"]
    rows = [{"what": what, "value": f"{device[key] / unit:.3g} {name}", "state": "measured"} for what, key, unit, name in (
        ("the best product", "flops_per_second", 1e12, "TFLOP/s"),
        ("the largest other op", "memory_bytes_per_second", 1e12, "TB/s"),
        ("copies from the host", "to_device_bytes_per_second", 1e9, "GB/s"),
        ("copies to the host", "from_device_bytes_per_second", 1e9, "GB/s"),
        ("both at once", "both_ways_bytes_per_second", 1e9, "GB/s"),
        ("messages between two devices", "link_bytes_per_second", 1e9, "GB/s"),
        ("between two actions", "action_seconds", 1e-6, "us")) if device[key] is not None]
    left_out = [line for line in told if "left out" in line or "not measured" in line]
    return rows + [{"what": "not measured", "state": "left out", "why": line} for line in left_out]


def one(context, name: str, shape: tuple) -> list:
    """A model: Strata, with as many layers as fit, and PyTorch with the same."""
    model, batch, sequence, train, numbers, fewer = shape
    rows, ours = [], None
    for layers in [model["layers"], *fewer]:
        used = model | {"layers": layers}
        try:
            ours = of_strata(context, used, batch, sequence, train)
            break
        except jobs.JobError as error:
            rows.append({"model": name, "layers": layers, "side": "strata", "state": state_of(str(error)), "why": str(error)})
    sides = {"strata": ours} if ours else {}
    if ours and not context.standin:
        shape = (used, batch, sequence, train)
        sides["strata, all values kept"] = of_other_strata(context, shape, {}, ALL_KEPT)
        sides["strata, own attention"] = of_other_strata(context, shape, {"STRATA_GPU_CUDNN": "0"}, {})
    for mode in ("eager", "compiled"):
        sides[f"torch {mode}"] = ask_torch(context, {
            "what": "training", "model": used, "batch": batch, "sequence": sequence, "mode": mode, "numbers": numbers,
            "steps": COUNTED}) if context.torch else None
    for side, found in sides.items():
        row = {"model": name, "layers": used["layers"], "batch": batch, "sequence": sequence, "side": side}
        if found is None or "error" in found:
            why = context.torch_why if found is None else found["error"]
            rows.append(row | {"state": "left out" if found is None else state_of(why), "why": why})
            continue
        work = flops(used, batch, sequence)
        rows.append(row | found | {"state": "measured", "tokens_per_second": batch * sequence / found["seconds"],
                                   "tflops": work / found["seconds"] / 1e12,
                                   "share": work / found["seconds"] / context.rate if context.rate else None})
    return rows


def speed(context) -> list:
    """Training steps of known models, beside PyTorch on the same shapes."""
    rows = []
    for name, shape in (TINY if context.standin else SHAPES).items():
        if context.left() < 20 and not context.standin:
            rows.append({"model": name, "side": "all", "state": "left out", "why": "no time was left"})
            continue
        rows += one(context, name, shape)
    return rows


def profile(context) -> list:
    """Where the time of their steps goes, kernel by kernel."""
    if context.standin:
        return [{"model": "all", "state": "left out", "why": "the stand-in has no times"}]
    rows = []
    for name, (model, batch, sequence, train, *_) in SHAPES.items():
        row = {"model": name}
        file = context.folder / "kernel_times"
        watched = context.jobs.watched({"CUDA_INJECTION64_PATH": str(context.root / "bin/libkernel_times.so"),
                                        "STRATA_KERNEL_TIMES": str(file)})
        try:
            if context.left() < 20:
                raise jobs.JobError("no time was left")
            run_strata(context, model, batch, sequence, train, watched)
            written = max(file.parent.glob(file.name + ".*"), key=lambda path: path.stat().st_size)
            row |= {"found": kernel_times.of_steps(kernel_times.read(written)), "state": "measured"}
        except jobs.JobError as error:
            row |= {"state": state_of(str(error)), "why": str(error)}
        for written in file.parent.glob(file.name + ".*"):
            written.unlink()
        rows.append(row)
    return rows
