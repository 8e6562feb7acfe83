"""The demo: a local cluster of two nodes trains deploy/examples/bible.yaml on real text, then the model writes.

Run by ./dev demo, after the build. Leaves in out/demo: bible.txt, run/ (the job's directory with metrics.jsonl and
checkpoints), cluster/ (the cluster's state and logs) and summary.json.
"""

import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
STRATA = ROOT / "out/bin/strata"
JOB = ROOT / "deploy/examples/bible.yaml"
FOLDER = ROOT / "out/demo"
TEXT, RUN, CLUSTER, SUMMARY = (FOLDER / n for n in ("bible.txt", "run", "cluster", "summary.json"))
METRICS = RUN / "metrics.jsonl"
PROMPT = "And the LORD said unto "


def shown(command) -> str:
    return " ".join(str(c.relative_to(ROOT)) if isinstance(c, pathlib.Path) else c for c in command)


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


def up() -> dict:
    """Starts the cluster; its addresses and processes."""
    command = [STRATA, "up", "--agents", "2", "--dir", CLUSTER]
    print("$", shown(command), flush=True)
    answer = subprocess.run([*command, "-o", "json"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    cluster = json.loads(answer.stdout)
    print(f"Controller {cluster['server']}, metrics {cluster['metrics_address']}", flush=True)
    return cluster


def down():
    print("$", shown([STRATA, "down", "--dir", CLUSTER]), flush=True)
    subprocess.run([STRATA, "down", "--dir", CLUSTER], cwd=ROOT, check=True)


class FirstStep(threading.Thread):
    """Notes when the first step's record is there."""

    def __init__(self, began: float):
        super().__init__(daemon=True)
        self.began, self.seconds, self.running = began, None, True

    def run(self):
        while self.running and self.seconds is None:
            if METRICS.exists() and METRICS.stat().st_size > 0:
                self.seconds = time.monotonic() - self.began
            time.sleep(0.05)


def train(server: str) -> int:
    """Submits the job and follows it; the exit status."""
    command = [STRATA, "submit", JOB, "--attach", "--dir", RUN]
    print("$", shown(command), flush=True)
    job = subprocess.Popen([*command, "--server", server], cwd=ROOT)
    try:
        return job.wait()
    except KeyboardInterrupt:  # the terminal told the command too: it detaches
        return job.wait()


def job_now(server: str) -> dict:
    answer = subprocess.run([STRATA, "get", "job", "bible", "-o", "json", "--server", server], cwd=ROOT,
                            capture_output=True, text=True, check=True)
    return json.loads(answer.stdout)


def sample(checkpoint: str):
    """Lets the newest checkpoint write."""
    print(f"\nSampled text, after {PROMPT!r}:", flush=True)
    subprocess.run([STRATA, "generate", "--from", checkpoint, "--prompt", PROMPT, "--tokens", "230",
                    "--temperature", "0.7"], cwd=ROOT, check=True)


def clean():
    """What an earlier demo left, processes included."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    if (CLUSTER / "cluster.json").exists():
        subprocess.run([STRATA, "down", "--dir", CLUSTER, "-q"], cwd=ROOT, check=True)
    for folder in (RUN, CLUSTER):
        shutil.rmtree(folder, ignore_errors=True)
    SUMMARY.unlink(missing_ok=True)


def main() -> int:
    began = time.monotonic()
    clean()
    write_text()
    first = FirstStep(began)
    with contextlib.ExitStack() as at_end:
        cluster = up()
        at_end.callback(down)
        first.start()
        status = train(cluster["server"])
        first.running = False
        job = job_now(cluster["server"])
        if status == 0:
            sample(job["checkpoint"])
    steps = records()
    validation = [step["validation_loss"] for step in steps if "validation_loss" in step]
    summary = {
        "state": job["state"],
        "validation_loss": validation[-1] if validation else None,
        "steps": steps[-1]["step"] if steps else 0,
        "text": str(TEXT.relative_to(ROOT)),
        "metrics_jsonl": str(METRICS.relative_to(ROOT)),
        "metrics_address": cluster["metrics_address"],
        "seconds_to_first_step": first.seconds,
        "seconds_total": time.monotonic() - began,
    }
    SUMMARY.write_text(json.dumps(summary, indent=1) + "\n")
    loss = f"validation loss {validation[-1]:.3f} nats per byte" if validation else "no validation loss"
    print(f"\nThe job {job['state']}: {loss}, {summary['seconds_total']:.0f} s; {SUMMARY.relative_to(ROOT)}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
