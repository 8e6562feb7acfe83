"""All parts in their order, as long as there is time."""

import json
import pathlib
import sys
import tempfile
import time

import benchmarks
import checks
import jobs
import machine
import report

# Name: what it does, and the share of what time is left that it may take.
PARTS = {
    "kernels": (checks.kernels, 0.25),
    "models": (checks.models, 0.25),
    "training": (checks.training, 0.3),
    "ceilings": (benchmarks.ceilings, 0.2),
    "calibration": (benchmarks.calibration, 0.5),
    "speed": (benchmarks.speed, 0.85),
    "profile": (benchmarks.profile, 1.0),
}


def describe() -> list:
    lines = ["Parts, in this order:"]
    return lines + [f"  {name:10}{function.__doc__.splitlines()[0]}"
                    for name, (function, _) in PARTS.items()]


class Context:
    """What the parts share."""

    def __init__(self, root: pathlib.Path, folder: pathlib.Path, options, found: dict):
        self.root, self.folder, self.standin = root, folder, options.standin
        self.out = options.out
        self.env = machine.environment(root, found["libraries"])
        # One profile for all of these, whatever folder is their home.
        self.jobs = jobs.Jobs(root, folder / "jobs", self.env | {"XDG_CONFIG_HOME": str(folder / "config")}, options.standin)
        self.torch, self.torch_why, self.rate = found["torch"], found["torch_why"], 0
        self.end = self.part_end = time.monotonic() + options.seconds

    def left(self, most: float = float("inf")) -> float:
        """Seconds that the part has still."""
        return max(1.0, min(most, self.part_end - time.monotonic()))


def look(standin: bool) -> tuple:
    """What there is, and what is missing."""
    gpu, why = machine.gpu()
    libraries = machine.libraries()
    missing = [] if gpu else [why]
    missing += [f"{name}: in none of {', '.join(machine.library_folders())}"
                for name, needed in machine.LIBRARIES.items() if needed and not libraries[name]]
    torch, version, usable = (None, None, False) if standin else machine.torch()
    torch_why = "the stand-in is not measured" if standin else "no Python here has PyTorch" if not torch else \
        "" if usable else f"PyTorch {version} of {torch} sees no GPU"
    about = {"gpu": "Strata's stand-in of CUDA" if standin else gpu and gpu["name"], "driver": gpu["driver"] if gpu else None,
             "memory_mib": gpu["memory_mib"] if gpu else None, "torch": version, "date": time.strftime("%Y-%m-%d"),
             "standin": standin, **machine.about(), **{name: path for name, path in libraries.items()}}
    found = {"libraries": libraries, "torch": torch if usable else None, "torch_why": torch_why, "about": about}
    return found, [] if standin else missing


def ask(root: pathlib.Path, options) -> int:
    found, missing = look(options.standin)
    if missing:
        print("run: nothing was run; this machine lacks", *missing, sep="\n  ", file=sys.stderr)
        return 2
    about_file = root / "about.json"
    packed = json.loads(about_file.read_text()) if about_file.exists() else {}
    results = {"about": found["about"] | packed, "parts": {}}
    with tempfile.TemporaryDirectory(prefix="strata-gpu-") as folder:
        context = Context(root, pathlib.Path(folder), options, found)
        for name, (function, share) in PARTS.items():
            if options.part and name not in options.part:
                continue
            begin = time.monotonic()
            context.part_end = begin + max(context.end - begin, 1) * (share if not options.part else 1)
            rows = function(context)
            results["parts"][name] = {"rows": rows, "seconds": time.monotonic() - begin}
            report.write(results, options.out)  # after each: what ends this early leaves what there is
            print(f"\n{name}\n{report.TABLES[name](rows)}", flush=True)
    print(f"\n{options.out}/results.md\n\n{report.summary(results)}", flush=True)
    failed = any(row["state"] == "failed" for part in results["parts"].values() for row in part["rows"])
    return 1 if failed else 0
