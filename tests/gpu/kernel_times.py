"""Where the time of training steps goes on a GPU, by the lines that libkernel_times.so writes.

kernel_times.py FILE [ROWS]: a table of one process's kernels, copies and fills, by their share of a step. A step begins where
token embeddings are looked up, so this is for programs that do so once in a step.
"""

import collections
import pathlib
import re
import sys

STEPS = 5  # of which the medians are means: the last but one


def read(path: pathlib.Path) -> list:
    """(start, end, kind, size, name), in their order; a last line that is not whole is left out."""
    rows = []
    for line in path.read_text(errors="replace").splitlines(keepends=True):
        cells = line.rstrip("\n").split(" ", 5)
        if line.endswith("\n") and len(cells) == 6:
            rows.append((int(cells[1]), int(cells[2]), cells[0], cells[4], cells[5]))
    return sorted(rows)


def short(name: str) -> str:
    """Without name spaces, arguments and what templates say of types."""
    name = re.sub(r"\(anonymous namespace\)::|strata::|kernels::|cuda::|void ", "", name)
    return re.sub(r"\(.*", "", name)[:80]


def of_steps(rows: list) -> dict:
    """Milliseconds of a step, those in which something ran, and the activities by their time; {} with too few steps."""
    begins = [row[0] for row in rows if "EmbeddingForward" in row[4]]
    if len(begins) < STEPS + 2:
        return {}
    first, last = begins[-STEPS - 1], begins[-1]
    rows = [row for row in rows if first <= row[0] < last]
    busy, until = 0, 0
    for start, end, *_ in rows:
        busy += max(0, end - max(start, until))
        until = max(until, end)
    times, counts = collections.Counter(), collections.Counter()
    for start, end, kind, size, name in rows:
        key = f"{short(name)} {size}" if kind == "kernel" else f"{kind} {name} {size}"
        times[key] += end - start
        counts[key] += 1
    step = (last - first) / STEPS
    found = [{"name": key, "ms": time / STEPS / 1e6, "share": time / STEPS / step, "count": counts[key] / STEPS,
              "us": time / counts[key] / 1e3} for key, time in times.most_common()]
    return {"step_ms": step / 1e6, "busy_ms": busy / STEPS / 1e6, "activities": len(rows) / STEPS, "rows": found}


def text(found: dict, most: int = 40) -> str:
    if not found:
        return "too few steps"
    lines = [f"step {found['step_ms']:.2f} ms, busy {found['busy_ms']:.2f} ms, {found['activities']:.0f} activities"]
    for row in found["rows"][:most]:
        lines.append(f"{row['ms']:8.3f} ms {100 * row['share']:5.1f} % {row['count']:6.1f} x {row['us']:8.1f} us  {row['name']}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(text(of_steps(read(pathlib.Path(sys.argv[1]))), int(sys.argv[2]) if len(sys.argv) > 2 else 40))
