"""What this machine has: a GPU, CUDA's libraries, PyTorch."""

import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys

# Whether trainers need it.
LIBRARIES = {"libcuda.so.1": True, "libcublasLt.so.13": True, "libnccl.so.2": True, "libcudnn.so.9": False}
PYTHONS = ["python3", "/opt/torch/.venv/bin/python3", "/opt/conda/bin/python3", "/usr/bin/python3"]


def gpu() -> tuple:
    """Name, MiB and driver of the first one; or None and why not."""
    if not shutil.which("nvidia-smi"):
        return None, "nvidia-smi: not found; there is no driver"
    done = subprocess.run(["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits"],
                          capture_output=True, text=True)
    if done.returncode != 0 or not done.stdout.strip():
        return None, f"nvidia-smi: {(done.stdout + done.stderr).strip() or 'lists no GPU'}"
    name, memory, driver = map(str.strip, done.stdout.splitlines()[0].split(","))
    return {"name": name, "memory_mib": int(memory), "driver": driver}, ""


def library_folders() -> list:
    """Where CUDA's libraries usually are: the loader's folders, the toolkit's, wheels of any Python here."""
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    folders += ["/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/local/cuda/lib64",
                *sorted(glob.glob("/usr/local/cuda-*/lib64"), reverse=True), "/usr/lib/x86_64-linux-gnu", "/usr/lib64",
                "/lib64"]
    sites = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    for pattern in ("/opt/*/.venv/lib/python3*/site-packages", "/opt/*/lib/python3*/site-packages",
                    "/usr/local/lib/python3*/*-packages", "/usr/lib/python3*/dist-packages",
                    os.path.expanduser("~/.local/lib/python3*/site-packages"), os.path.expanduser("~/.cache/strata/cuda")):
        sites += sorted(glob.glob(pattern))
    for site in sites:
        folders += sorted(glob.glob(f"{site}/nvidia/*/lib"))
    return [folder for folder in dict.fromkeys(folders) if folder]


def libraries() -> dict:
    """Name → path, or None where it is nowhere."""
    folders = library_folders()
    return {name: next((f"{folder}/{name}" for folder in folders if os.path.exists(f"{folder}/{name}")), None)
            for name in LIBRARIES}


def torch() -> tuple:
    """The Python that has PyTorch, and its version; or None."""
    for python in dict.fromkeys([sys.executable, *PYTHONS]):
        path = shutil.which(python)
        if not path:
            continue
        done = subprocess.run([path, "-c", "import torch; print(torch.__version__, torch.cuda.is_available())"],
                              capture_output=True, text=True)
        if done.returncode == 0:
            version, usable = done.stdout.split()
            return path, version, usable == "True"
    return None, None, False


def environment(root: pathlib.Path, found: dict) -> dict:
    """For programs of the pack: its libraries first, then those of CUDA."""
    folders = [str(root / "lib"), *(os.path.dirname(path) for path in found.values() if path),
               *filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))]
    env = {key: value for key, value in os.environ.items() if not key.startswith(("STRATA_", "XDG_"))}
    return env | {"LD_LIBRARY_PATH": ":".join(dict.fromkeys(folders)), "NO_COLOR": "1"}


def about() -> dict:
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return {"cpu": cpu and cpu.group(1), "cores": os.cpu_count(), "kernel": os.uname().release}
