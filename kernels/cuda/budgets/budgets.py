"""Registers, spills, shared memory, occupancy and wide accesses of every CUDA kernel, against budgets.csv.

budgets.py LAUNCHES OBJECT…: the program `launches`, and objects by nvcc. Prints what became worse; exit status 1 if
anything did, or if a kernel is not in the table. --write rewrites budgets.csv, in the architectures that the objects
have, and the tables of docs/cuda_kernels.md; it is for Bazel's `run`, which says where the tree is.
"""

import csv
import os
import pathlib
import re
import subprocess
import sys
from dataclasses import asdict, dataclass, fields

import device_limits
import machine_code

REWRITE = ("bazel run --config=cuda --//bazel:cuda_architectures=80,90a,100a "
           "//kernels/cuda/budgets:budgets_test -- --write")
TABLE, PAGE = "kernels/cuda/budgets/budgets.csv", "docs/cuda_kernels.md"
BEGIN, END = "<!-- budgets: {} -->", "<!-- end of budgets -->"


@dataclass
class Budget:
    """A kernel on an architecture; `warps` reside on a multiprocessor. Accesses are to global memory, wide ones of 16 bytes."""
    source: str
    kernel: str
    architecture: int
    threads: int
    registers: int
    frame_bytes: int
    shared_bytes: int
    dynamic_bytes: int
    warps: int
    loads: int
    wide_loads: int
    stores: int
    wide_stores: int

    def key(self):
        return self.source, self.kernel, self.architecture

    def name(self) -> str:
        return f"{self.source}: {self.kernel} on sm_{self.architecture}"


@dataclass
class Operation:
    """A call at a named shape, and its launches."""
    name: str
    type: str
    bytes: float
    flops: float
    unit: str
    launches: list  # (mangled, blocks, threads, dynamic bytes)


def read_launches(text: str) -> tuple:
    """Operations that have work, and for each kernel its largest dynamic shared memory."""
    operations, dynamic, launches = [], {}, []
    for line in text.splitlines():
        what, *values = line.split("\t")
        if what == "op":
            launches = []
            if values:
                name, kind, moved, flops, unit = values
                operations.append(Operation(name, kind, float(moved), float(flops), unit, launches))
        else:
            kernel, blocks, threads, shared = values[0], *map(int, values[1:])
            launches.append((kernel, blocks, threads, shared))
            dynamic[kernel] = max(dynamic.get(kernel, 0), shared)
    return operations, dynamic


def measure(objects: list, dynamic: dict) -> tuple:
    """Budgets as the objects are, and kernels that nothing launches."""
    kernels = [kernel for path in objects for kernel in machine_code.kernels_of_object(path)]
    names = machine_code.short_names(sorted({kernel.mangled for kernel in kernels}))
    budgets, idle = {}, set()
    for kernel in kernels:
        if kernel.mangled not in dynamic:
            idle.add(f"{kernel.source}: {names[kernel.mangled]}")
        more = dynamic.get(kernel.mangled, 0)
        warps = device_limits.resident_warps(kernel.architecture, kernel.threads, kernel.registers,
                                             kernel.shared_bytes + more)
        budget = Budget(kernel.source, names[kernel.mangled], kernel.architecture, kernel.threads, kernel.registers,
                        kernel.frame_bytes, kernel.shared_bytes, more, warps, kernel.loads, kernel.wide_loads,
                        kernel.stores, kernel.wide_stores)
        if budget.key() in budgets:
            raise ValueError(f"two kernels are called {budget.name()}")
        budgets[budget.key()] = budget
    return budgets, sorted(idle)


def worse(old: dict, new: dict, idle: list) -> list:
    """What a test fails with: kernel, what, old and new value."""
    found = [f"{name}: no operation of launches.cc launches it" for name in idle]
    architectures = {budget.architecture for budget in new.values()}
    found += [f"{budget.name()}: in the table, but not in the code" for key, budget in old.items()
              if budget.architecture in architectures and key not in new]
    for key, budget in new.items():
        spilled = old[key].frame_bytes if key in old else 0
        if budget.frame_bytes > spilled:
            found.append(f"{budget.name()}: spills: {spilled} before, {budget.frame_bytes} bytes now")
        if key not in old:
            found.append(f"{budget.name()}: not in the table")
            continue
        before = old[key]
        for what, label in (("warps", "warps on a multiprocessor"), ("wide_loads", "loads of 16 bytes"),
                            ("wide_stores", "stores of 16 bytes")):
            was, now = getattr(before, what), getattr(budget, what)
            if now < was:
                why = f" ({before.registers} registers before, {budget.registers} now)" if what == "warps" else ""
                found.append(f"{budget.name()}: {label}: {was} before, {now} now{why}")
    return found


def read_table(path: pathlib.Path) -> dict:
    with path.open(newline="") as file:
        rows = [Budget(**{field.name: field.type(row[field.name]) for field in fields(Budget)})
                for row in csv.DictReader(file)]
    return {row.key(): row for row in rows}


def write_table(path: pathlib.Path, budgets: dict):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Budget)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(budgets[key]) for key in sorted(budgets))


def budget_rows(budgets: dict) -> str:
    """In Markdown: registers and accesses on sm_90, warps on each."""
    architectures = sorted({key[2] for key in budgets})
    lines = ["| source | kernel | threads | registers | shared bytes | loads, of 16 bytes | stores, of 16 bytes | warps of sm_"
             + ", ".join(map(str, architectures)) + " |", "|---|---|---|---|---|---|---|---|"]
    for key in sorted(key for key in budgets if key[2] == 90):
        b = budgets[key]
        warps = [budgets.get((*key[:2], each)) for each in architectures]
        shared = f"{b.shared_bytes} + {b.dynamic_bytes}" if b.dynamic_bytes else str(b.shared_bytes)
        lines.append(f"| {b.source} | `{b.kernel}` | {b.threads} | {b.registers} | {shared} | {b.loads}, {b.wide_loads} | "
                     f"{b.stores}, {b.wide_stores} | " + ", ".join(str(w.warps) if w else "?" for w in warps) + " |")
    spills = [f"`{b.kernel}` {b.frame_bytes} bytes on sm_{b.architecture}" for b in budgets.values() if b.frame_bytes]
    return "\n".join([*lines, "", "Spills: " + (", ".join(sorted(spills)) or "none") + "."])


def roofline_rows(operations: list) -> str:
    devices = device_limits.DEVICES
    lines = ["| operation | type | MB | GFLOP | blocks | " + " | ".join(f"{d.name} µs" for d in devices) + " |",
             "|---|---|---|---|---|" + "---|" * len(devices)]
    for o in operations:
        least = [device_limits.roofline(device, o.bytes, o.flops, o.unit) for device in devices]
        blocks = ", ".join(f"{launch[1]:,}" for launch in o.launches)
        lines.append(f"| {o.name} | {o.type} | {o.bytes / 1e6:,.2f} | {o.flops / 1e9:,.2f} | {blocks} | "
                     + " | ".join(f"{us:,.1f} {what}" for us, what in least) + " |")
    return "\n".join(lines)


def with_tables(page: str, tables: dict) -> str:
    """The page with what stands between each table's marks replaced."""
    for name, table in tables.items():
        begin = BEGIN.format(name)
        pattern = re.compile(re.escape(begin) + r".*?" + re.escape(END), re.S)
        if len(pattern.findall(page)) != 1:
            raise ValueError(f"{PAGE} has no place, or several, between {begin} and {END}")
        page = pattern.sub(lambda _, text=f"{begin}\n{table}\n{END}": text, page)
    return page


def compare(launches: pathlib.Path, objects: list, root: pathlib.Path, write: bool) -> list:
    """What is wrong, after writing nothing."""
    text = subprocess.run([launches], capture_output=True, text=True, check=True).stdout
    operations, dynamic = read_launches(text)
    new, idle = measure(objects, dynamic)
    if not new:
        return ["the objects have no kernels"]
    table, page = root / TABLE, root / PAGE
    old = read_table(table) if table.exists() else {}
    if write:
        names = {key[:2] for key in new}
        architectures = {key[2] for key in new}
        kept = {key: b for key, b in old.items() if key[:2] in names and key[2] not in architectures}
        old = kept | new
        write_table(table, old)
    tables = {"kernels": budget_rows(old), "operations": roofline_rows(operations)}
    if write:
        page.write_text(with_tables(page.read_text(), tables))
    found = worse(old, new, idle)
    if page.read_text() != with_tables(page.read_text(), tables):
        found.append(f"{PAGE} is not what {TABLE} and launches.cc say")
    return found


def main(arguments: list) -> int:
    write = "--write" in arguments
    launches, *objects = map(pathlib.Path, (a for a in arguments if a != "--write"))
    root = pathlib.Path(os.environ["BUILD_WORKSPACE_DIRECTORY"]) if write else pathlib.Path.cwd()
    found = compare(launches.resolve(), [path.resolve() for path in objects], root, write)
    for line in found:
        print(line)
    if found:
        print(f"{len(found)} kernels' budgets do not hold. If that is meant: {REWRITE}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
