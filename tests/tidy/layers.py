"""Which folder may include which: the folder table of the design, as data.

A unit is a folder, or a part of one that the table names. MAY_USE holds what the table grants; what a whole
folder grants is passed on, what a part grants ends there (`model` uses `program/ir` and nothing below it).
Every unit may use common and proto, and itself.
"""

import re

EVERYWHERE = ("common", "proto")

# unit: what it may use. "folder/file*" grants single headers of a folder.
MAY_USE = {
    "proto": [],
    "common": [],
    "device": [],
    "topology": [],
    "topology/nvml": ["topology"],
    "topology/probe": ["topology", "topology/nvml"],
    "topology/import": ["spec", "topology"],
    "program/ir": ["topology"],
    "ops": ["program/ir"],
    "program": ["program/ir", "ops", "topology"],
    "model": ["program/ir", "ops"],
    "planner": ["model", "program"],
    "spec": ["model", "program/compose/check_plan*"],
    "scheduler": ["planner", "topology"],
    "kernels": ["device"],
    "memory": ["device"],
    "collectives": ["device", "kernels/number_types*"],
    "data": [],
    "checkpoint": ["model"],
    "protocol": [],
    "security": [],
    "controller/access": ["spec"],
    "controller/logic": ["controller/access", "protocol", "scheduler", "spec", "checkpoint/manifest*"],
    "controller/simulator": ["controller/access", "controller/logic", "protocol", "scheduler", "spec", "checkpoint/manifest*"],
    "controller": ["security", "controller/access", "controller/logic", "controller/simulator", "protocol", "scheduler", "spec",
                   "topology/import", "checkpoint/manifest*"],
    "worker/shared": [],
    "worker/agent": ["protocol", "security", "topology", "topology/nvml", "topology/probe", "worker/agent/logic",
                     "worker/shared"],
    "worker/agent/logic": ["protocol", "worker/shared/progress_layout*", "worker/shared/progress_view*",
                           "worker/shared/version*"],
    "worker/engine": ["checkpoint", "collectives", "data", "kernels", "memory", "model", "planner", "program",
                      "protocol/trace_record*", "worker/shared"],
    "worker/trainer": ["protocol", "worker/engine", "worker/shared"],
    "client": ["protocol", "security", "spec", "planner", "data", "checkpoint", "scheduler", "controller/logic",
               "controller/simulator", "topology", "topology/import", "topology/nvml", "topology/probe"],
    "simulation": ["controller/logic", "controller/simulator", "scheduler", "worker/agent/logic",
                   "worker/shared/progress_layout*", "worker/shared/progress_view*"],
    "deploy": [],
    "bazel": [],
    "docs": [],
}
# These stand outside the graph: tests that span folders use anything.
UNRESTRICTED = ("tests",)

# Parts do not pass on what they use: who names them gets them alone.
PARTS = {unit for unit in MAY_USE if "/" in unit and not unit.startswith("worker/")}

# System headers that only some units may include: pattern of the header, units, why.
SYSTEM_HEADERS = [
    (re.compile(r"(cuda|cublas|cudnn|cufile|curand|cupti|nvrtc|nvToolsExt|nvtx3/|nccl|cooperative_groups|mma\.h)"),
     ("device/cuda", "device/standin", "kernels/cuda", "memory", "collectives/nccl", "tests/gpu"),
     "CUDA stays behind device/, kernels/cuda, memory/ and collectives/nccl"),
    (re.compile(r"(grpcpp?/|.*\.grpc\.pb\.h)"),
     ("controller", "worker/agent", "client", "tests", "proto", "security"),
     "gRPC belongs to services and clients; logic classes know plain types"),
    (re.compile(r"sqlite3"), ("controller", "tests"), "durable state is the controller's store"),
    (re.compile(r"hwloc"), ("topology/probe",), "only the probe reads the machine"),
]
# Logic inside a folder whose services may use the above.
NO_SERVICES = ("controller/access", "controller/logic", "controller/service/files", "controller/service/reactor",
               "controller/service/streams", "controller/simulator", "worker/agent/logic", "worker/agent/machine",
               "worker/agent/standalone", "worker/agent/trainers")

INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')


def inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")


def unit_of(path: str) -> str | None:
    """The innermost unit a file belongs to; None for a folder the table does not know."""
    units = [u for u in (*MAY_USE, *UNRESTRICTED) if inside(path, u)]
    return max(units, key=len) if units else None


def closure(unit: str) -> set:
    """All that a unit may use, transitively: units, and patterns of single headers."""
    found, queue = set(), [*MAY_USE[unit], *EVERYWHERE]
    while queue:
        grant = queue.pop()
        if grant in found:
            continue
        found.add(grant)
        if grant in MAY_USE and grant not in PARTS:
            queue += MAY_USE[grant]
    return found | {unit}


def allowed(source: str, header: str) -> bool:
    """Whether the file `source` may include the tree's header `header`."""
    unit, target = unit_of(source), unit_of(header)
    if unit in UNRESTRICTED:
        return True
    if unit in EVERYWHERE:  # the bottom of the graph: nothing but itself
        return target == unit
    grants = closure(unit)
    return target in grants or any(g.endswith("*") and header.startswith(g[:-1]) for g in grants)


def check_includes(path: str, lines: list):
    """Yields (line number, rule, what to do) for each include that the table forbids."""
    unit = unit_of(path)
    if unit is None:
        yield 1, "layers", "this folder is not in the design's table: put the file into one that is"
        return
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        header = match.group(2)
        for pattern, units, why in SYSTEM_HEADERS:
            forbidden = not any(inside(path, u) for u in units) or any(inside(path, u) for u in NO_SERVICES)
            if pattern.match(header) and forbidden:
                yield number, "layers", f"{header} is for {', '.join(units)} only: {why}"
        if match.group(1) == "<" or "/" not in header or unit_of(header) is None:
            continue
        if not allowed(path, header):
            yield number, "layers", (f"{unit} may not include {header}: move the shared part down, or pass it in "
                                     f"through an interface that {unit} owns")
