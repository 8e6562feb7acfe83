"""What benches of predicted steps share: a calibrated machine, and runs of one job in this terminal."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WARM_STEPS = 2  # of each run: they count for nothing


def add_options(parser):
    parser.add_argument("--profile", help="of an earlier calibration, instead of a new one")
    parser.add_argument("--json", help="write the results there too")
    parser.add_argument("--strata", default=str(ROOT / "out/bin/strata"), help="the program")


def chosen(parser, what, names, known) -> list:
    """Of a comma-separated option; what is not known ends the program."""
    names = names.split(",")
    if unknown := [name for name in names if name not in known]:
        parser.error(f"no {what} {', '.join(unknown)}: there are {', '.join(known)}")
    return names


@contextlib.contextmanager
def calibrated(options):
    """A folder with a text to train on, and the path of this machine's profile."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="strata-calibrated-") as name:
        folder = pathlib.Path(name)
        # No cluster's measured steps correct what is predicted here.
        os.environ["XDG_STATE_HOME"] = name
        os.environ.pop("STRATA_SERVER", None)
        (folder / "text.txt").write_text(" ".join(str(i * i % 7919) for i in range(200_000)))
        profile = options.profile or str(folder / "profile.textproto")
        if not options.profile:
            subprocess.run([options.strata, "calibrate", "--profile", profile], check=True)
            print(f"calibrated in {time.monotonic() - begin:.0f} s; load {os.getloadavg()[0]:.1f}", flush=True)
        yield folder, profile


def run(options, path, profile, settings=()) -> list:
    """The records of one run of a job file, without the first steps."""
    metrics, directory = path.parent / "metrics.jsonl", path.parent / "job"
    shutil.rmtree(directory, ignore_errors=True)
    metrics.unlink(missing_ok=True)
    words = [word for setting in settings for word in ("--set", setting)]
    subprocess.run([options.strata, "run", path, "--dir", directory, "--metrics", metrics, "--profile", profile, "-q",
                    *words], check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(directory)  # its checkpoint is as large as the model and its state
    return [json.loads(line) for line in metrics.read_text().splitlines()][WARM_STEPS:]
