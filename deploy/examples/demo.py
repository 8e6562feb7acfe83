"""The demo: trains deploy/examples/bible.yaml on real text with two local ranks, then lets the model write.

Run by ./dev demo, after the build. Leaves in out/demo: bible.txt, metrics.jsonl, run/ (the job's directory with
its checkpoints) and summary.json.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
STRATA = ROOT / "out/bin/strata"
JOB = ROOT / "deploy/examples/bible.yaml"
FOLDER = ROOT / "out/demo"
TEXT, RUN, METRICS, SUMMARY = (FOLDER / n for n in ("bible.txt", "run", "metrics.jsonl", "summary.json"))
PROMPT = "And the LORD said unto "


def write_text():
    """The whole text as Debian's `bible` prints it, a verse per line, without the verses' numbers."""
    printed = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], stdin=subprocess.DEVNULL, check=True,
                             capture_output=True, text=True).stdout
    verses = re.findall(r"^\w+:\d+ (.+)$", printed, re.M)
    if len(verses) != 31102 or not verses[0].startswith("In the beginning God created"):
        sys.exit(f"demo: `bible` printed {len(verses)} verses, not the 31102 of the King James Bible")
    TEXT.write_text("\n".join(verses) + "\n")
    print(f"Text: {TEXT.relative_to(ROOT)}, {TEXT.stat().st_size / 1e6:.1f} MB", flush=True)


def records() -> list:
    """The step records written so far."""
    try:
        return [json.loads(line) for line in METRICS.read_text().splitlines(keepends=True) if line.endswith("\n")]
    except OSError:
        return []


def train(began: float):
    """Runs the job in this terminal; returns (exit status, seconds from the start to the first step's record)."""
    command = [STRATA, "run", JOB, "--ranks", "2", "--dir", RUN, "--metrics", METRICS]
    print("$", *(c if isinstance(c, str) else c.relative_to(ROOT) for c in command), flush=True)
    job, first = subprocess.Popen(command, cwd=ROOT), None
    try:
        while job.poll() is None:
            if first is None and METRICS.exists() and METRICS.stat().st_size > 0:
                first = time.monotonic() - began
            time.sleep(0.05)
    except KeyboardInterrupt:  # the terminal told the job too: it commits a checkpoint first
        job.wait()
    return job.returncode, first


def sample():
    """Lets the newest checkpoint write."""
    checkpoints = sorted(m.parent for m in RUN.rglob("step-*/manifest.json"))
    if not checkpoints:
        sys.exit(f"demo: no checkpoint below {RUN}")
    command = [STRATA, "generate", "--from", checkpoints[-1], "--prompt", PROMPT, "--tokens", "230",
               "--temperature", "0.7"]
    print(f"\nSampled text, after {PROMPT!r}:", flush=True)
    subprocess.run(command, cwd=ROOT, check=True)


def main() -> int:
    began = time.monotonic()
    shutil.rmtree(RUN, ignore_errors=True)
    for old in (METRICS, SUMMARY):
        old.unlink(missing_ok=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_text()
    status, first = train(began)
    state = {0: "SUCCEEDED", 130: "CANCELLED"}.get(status, "FAILED")
    if status == 0:
        sample()
    steps = records()
    validation = [step["validation_loss"] for step in steps if "validation_loss" in step]
    summary = {
        "state": state,
        "validation_loss": validation[-1] if validation else None,
        "steps": steps[-1]["step"] if steps else 0,
        "text": str(TEXT.relative_to(ROOT)),
        "metrics_jsonl": str(METRICS.relative_to(ROOT)),
        "seconds_to_first_step": first,
        "seconds_total": time.monotonic() - began,
    }
    SUMMARY.write_text(json.dumps(summary, indent=1) + "\n")
    loss = f"validation loss {validation[-1]:.3f} nats per byte" if validation else "no validation loss"
    print(f"\nThe job {state}: {loss}, {summary['seconds_total']:.0f} s; {SUMMARY.relative_to(ROOT)}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
