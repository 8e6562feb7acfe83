"""Programs, twins of tests and what they are linked with, in one archive."""

import json
import lzma
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_BYTES = 64 << 20
# Fast, and with a dictionary in which a twin finds what it shares with those before it.
COMPRESSION = [{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": MOST_BYTES}]
SCRIPTS = ["run", "asking.py", "benchmarks.py", "checks.py", "jobs.py", "kernel_times.py", "machine.py", "packing.py", "report.py",
           "torch_side.py"]
# Whole jobs by real processes, which need no more than Python.
JOBS = ["gpu_calibrate_test.py", "gpu_standin_test.py", "real_processes.py"]
PROGRAMS = ["//client:strata", "//worker/agent:strata-worker", "//worker/trainer:strata-trainer",
            "//worker/trainer:strata-trainer-gpu"]
KERNEL_TIMES = "//tests/gpu:libkernel_times.so"
STANDIN = "//worker/trainer:strata-trainer-standin"
# Of the machine that it runs on: its C library, and CUDA's libraries.
NOT_PACKED = re.compile(r"(linux-vdso|ld-linux|libc|libm|libdl|librt|libpthread|libresolv|libutil|libcublasLt|libnccl"
                        r"|libcuda)\b")


def bazel(*arguments) -> list:
    done = subprocess.run(["bazel", *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          check=True)
    return done.stdout.split()


def twins() -> list:
    """Tests that strata_cuda_test links with the real libraries."""
    return bazel("query", r"attr(tags, '\bgpu\b', //...)")


def build_and_pack(output: pathlib.Path, standin: bool) -> int:
    programs, tests = [*PROGRAMS, KERNEL_TIMES] + [STANDIN] * standin, twins()
    cache = pathlib.Path.home() / ".cache/strata/bazel"
    built = subprocess.run(["bazel", "build", "--config=cudnn", f"--disk_cache={cache}", "--show_result=0", *programs, *tests],
                           cwd=ROOT)
    if built.returncode != 0:
        return built.returncode
    folder = pathlib.Path(bazel("info", "bazel-bin")[0])
    paths = {label: folder / label.removeprefix("//").replace(":", "/") for label in programs + tests}
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    output.parent.mkdir(parents=True, exist_ok=True)
    try:
        size = pack(output, [paths[label] for label in programs], [paths[label] for label in tests],
                    {"commit": commit.stdout.strip(), "packed": time.strftime("%Y-%m-%d %H:%M")})
    except ValueError as error:
        print(f"run: {error}", file=sys.stderr)
        return 1
    print(f"{output}: {size / 2**20:.1f} MiB, {len(programs)} programs, {len(tests)} tests")
    return 0


def libraries(programs: list) -> dict:
    """Name → path of the shared libraries that are packed."""
    found = {}
    for program in programs:
        text = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        for name, path in re.findall(r"^\s*(\S+) => (/\S+)", text, re.M):
            if not NOT_PACKED.match(name):
                found[name] = path
    return found


def pack(output: pathlib.Path, programs: list, tests: list, about: dict) -> int:
    """The archive's size. ValueError: it is too large for what carries it."""
    here = pathlib.Path(__file__).resolve().parent
    with (tempfile.TemporaryDirectory() as folder, lzma.open(output, "wb", filters=COMPRESSION) as file,
          tarfile.open(fileobj=file, mode="w|") as archive):
        for place, paths in (("bin", programs), ("tests", tests)):
            for path in paths:
                stripped = pathlib.Path(folder, path.name)
                subprocess.run(["strip", "-o", stripped, path.resolve()], check=True)
                archive.add(stripped, f"{place}/{path.name}")
                stripped.unlink()
        for name, path in sorted(libraries([*programs, *tests]).items()):
            archive.add(pathlib.Path(path).resolve(), f"lib/{name}")
        for name in SCRIPTS:
            archive.add(here / name, name)
        for name in JOBS:
            archive.add(here.parent / "integration" / name, f"jobs/{name}")
        about_file = pathlib.Path(folder, "about.json")
        about_file.write_text(json.dumps(about))
        archive.add(about_file, "about.json")
    size = output.stat().st_size
    if size >= MOST_BYTES:
        raise ValueError(f"{output} has {size} bytes: at most {MOST_BYTES}, pack fewer tests")
    return size
