"""What ptxas makes of the CUDA kernels: registers.py [ARCHITECTURE]. From the tree's root.

Prints a table in Markdown, a row per kernel and types: registers, bytes of shared memory that the kernel itself
declares, bytes spilled. Exit status 1 if a kernel spills.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

CACHE = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
TOOLKITS = [os.environ.get("STRATA_CUDA"), "/usr/local/cuda", f"{CACHE}/strata/cuda/nvidia/cu13"]
FUNCTION = re.compile(r"Compiling entry function '(\S+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads.*?"
                      r"Used (\d+) registers([^\n]*)", re.S)


def short(name: str) -> str:
    """A demangled name without namespaces, arguments and casts of its template's."""
    name = re.sub(r"strata::kernels::|cuda::|\(anonymous namespace\)::|<unnamed>::|^void ", "", name)
    return re.sub(r"\((int|bool|Of)\)", "", name.replace("(bool)1", "add").replace("(bool)0", "alone")).split("(")[0]


def main(architecture: str) -> int:
    nvcc = next(f"{root}/bin/nvcc" for root in TOOLKITS if root and pathlib.Path(root, "bin/nvcc").exists())
    spilled, rows = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for source in sorted(pathlib.Path("kernels/cuda").glob("*.cu")):
            run = subprocess.run([nvcc, "-std=c++20", "-O3", "-I.", "-ccbin=g++", "-Xptxas=-v", f"-arch=sm_{architecture}",
                                  "-cubin", str(source), "-o", f"{folder}/out.cubin"], capture_output=True, text=True,
                                 check=True)
            for name, stores, loads, registers, rest in FUNCTION.findall(run.stderr):
                plain = subprocess.run(["c++filt", name], capture_output=True, text=True, check=True).stdout.strip()
                shared = re.search(r"(\d+) bytes smem", rest)
                spills = int(stores) + int(loads)
                spilled += spills
                rows.append((source.name, short(plain), int(registers), int(shared.group(1)) if shared else 0, spills))
    print("| source | kernel | registers | shared bytes | spilled bytes |\n|---|---|---|---|---|")
    for row in sorted(rows):
        print("| %s | `%s` | %d | %d | %d |" % row)
    return 1 if spilled or not rows else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "90a"))
