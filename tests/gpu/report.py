"""Results as JSON and Markdown."""

import json
import pathlib

import kernel_times


def cells(*values) -> str:
    return "| " + " | ".join("" if v is None else str(v).replace("|", "/").replace("\n", " ") for v in values) + " |"


def table(head: list, rows: list) -> str:
    return "\n".join([cells(*head), "|" + "---|" * len(head), *(cells(*row) for row in rows)])


def number(value, form: str) -> str:
    return "" if value is None else format(value, form)


def of_kernels(rows: list) -> str:
    return table(["test", "state", "passed", "skipped", "failed", "seconds", "why"],
                 [(r["test"], r["state"], r["passed"], r["skipped"], ", ".join(r["failed"]), r.get("seconds"), r["why"])
                  for r in rows])


def of_models(rows: list) -> str:
    return table(["job", "state", "steps", "losses apart in the first five", "in all", "bounds", "why"],
                 [(r["job"], r["state"], r["steps"], number(r.get("early"), ".1e"), number(r.get("late"), ".1e"),
                   " and ".join(map(str, r["bounds"])), r.get("why")) for r in rows])


def of_training(rows: list) -> str:
    return table(["model", "state", "steps", "first loss", "last loss", "why"],
                 [(r["model"], r["state"], r["steps"], number(r.get("first_loss"), ".3f"), number(r.get("last_loss"), ".3f"),
                   r.get("why")) for r in rows])


def of_ceilings(rows: list) -> str:
    return table(["what", "state", "rate", "why"], [(r["what"], r["state"], r.get("value"), r.get("why")) for r in rows])


def of_speed(rows: list) -> str:
    return table(["model", "layers", "sequences × tokens", "side", "state", "ms a step", "predicted", "tokens/s", "TFLOP/s",
                  "share of products' rate", "device GiB", "why"],
                 [(r["model"], r.get("layers"), f"{r['batch']} × {r['sequence']}" if "batch" in r else "", r["side"], r["state"],
                   number(r.get("seconds") and 1e3 * r["seconds"], ".1f"),
                   number(r.get("predicted_seconds") and 1e3 * r["predicted_seconds"], ".1f"), number(r.get("tokens_per_second"), ",.0f"),
                   number(r.get("tflops"), ".1f"), number(r.get("share"), ".2f"),
                   number(r.get("peak_bytes") and r["peak_bytes"] / 2**30, ".1f"), r.get("why")) for r in rows])


def of_profile(rows: list) -> str:
    parts = []
    for row in rows:
        parts.append(f"{row['model']}: " + (kernel_times.text(row["found"]) if row["state"] == "measured" else row["why"]))
    return "```\n" + "\n".join(parts) + "\n```"


TABLES = {"kernels": of_kernels, "models": of_models, "training": of_training, "ceilings": of_ceilings, "calibration": of_ceilings,
          "speed": of_speed,
          "profile": of_profile}


def summary(results: dict) -> str:
    """One table over all parts."""
    rows = []
    for part, found in results["parts"].items():
        states = {}
        for row in found["rows"]:
            states[row["state"]] = states.get(row["state"], 0) + 1
        rows.append((part, f"{found['seconds']:.0f}", ", ".join(f"{count} {state}" for state, count in sorted(states.items()))))
    return table(["part", "seconds", "outcome"], rows)


def markdown(results: dict) -> str:
    about = results["about"]
    lines = [f"# {about['gpu']}, {about['date']}", "",
             f"`tests/gpu/run go` of {about.get('commit') or 'an unknown commit'}; driver {about['driver']}, PyTorch "
             f"{about['torch'] or 'none'}, {about['cores']} cores of {about['cpu']}. Medians; strata's steps are whole ones, "
             "with the batch's way to the device; PyTorch's begin with the batch there.", ""]
    if about["standin"]:
        lines += ["**On the stand-in of CUDA: times are the CPU's and mean nothing.**", ""]
    for part, found in results["parts"].items():
        lines += [f"## {part}", "", TABLES[part](found["rows"]), ""]
    return "\n".join([*lines, "## Summary", "", summary(results), ""])


def write(results: dict, out: pathlib.Path):
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (out / "results.md").write_text(markdown(results))
