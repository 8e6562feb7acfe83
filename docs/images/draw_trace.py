"""Draws what `strata trace` wrote as a picture: draw_trace.py TRACE.json -o F.svg.

A row per stream, the measured ones of a rank above the predicted ones, time to the right, colours by purpose; grey
lines lead from sends to receives. Neighbours of one purpose that the eye cannot tell apart are drawn as one. Where
prediction and measurement are far apart, each fills the width on a scale of its own.
"""

import argparse
import collections
import html
import json

COLORS = {"load": "#8d99ae", "forward": "#4c78a8", "backward": "#e07b39", "backward_input": "#e07b39",
          "backward_weight": "#f2b880", "recompute": "#b07aa1", "gather": "#2a9d8f", "reduce": "#c1121f",
          "combine": "#9d6b53", "norm": "#bab0ac", "update": "#59a14f", "pipeline": "#edc948"}
OTHER = "#999999"
LEFT, WIDTH, ROW, GAP = 190, 1000, 15, 8  # pixels


def rows_of(trace: dict) -> tuple:
    """Names of processes and threads, in the order of their numbers, and the slices that no other one contains."""
    processes, threads, slices = {}, {}, collections.defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "M" and event["name"] == "process_name":
            processes[event["pid"]] = event["args"]["name"]
        if event["ph"] == "M" and event["name"] == "thread_name" and event["tid"] > 0:
            threads[event["pid"], event["tid"]] = event["args"]["name"]
        if event["ph"] == "X" and event["tid"] > 0:
            slices[event["pid"], event["tid"]].append(event)
    for row, events in slices.items():
        outer = []
        for event in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
            if not outer or event["ts"] + event["dur"] > outer[-1]["ts"] + outer[-1]["dur"]:
                outer.append(event)
        slices[row] = outer
    return processes, threads, slices


def scales_of(slices: dict) -> dict:
    """Pixels per microsecond of measured (odd) and predicted (even) processes, and how long they take."""
    ends = collections.defaultdict(float)
    for (pid, _), events in slices.items():
        ends[pid % 2] = max([ends[pid % 2], *(e["ts"] + e["dur"] for e in events)])
    longest = max(ends.values())
    return {kind: (WIDTH / (longest if end > longest / 2 else end), end / 1e3) for kind, end in ends.items()}


def merged(events: list, scale: float) -> list:
    """[begin, end, purpose, label] in pixels."""
    drawn = []
    for event in events:
        begin, end = event["ts"] * scale, (event["ts"] + event["dur"]) * scale
        if drawn and drawn[-1][2] == event["cat"] and begin - drawn[-1][1] < 0.3:
            drawn[-1][1] = max(end, drawn[-1][1])
            drawn[-1][3] = event["cat"] if drawn[-1][1] - drawn[-1][0] < 30 else drawn[-1][3]
        else:
            drawn.append([begin, end, event["cat"], event["name"]])
    return [d for d in drawn if d[1] - d[0] >= 0.1]


class Picture:
    def __init__(self):
        self.parts, self.y, self.tops = [], 26, {}

    def text(self, x: float, y: float, text: str, more: str = ""):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" {more}>{html.escape(text)}</text>')

    def row(self, row: tuple, name: str, events: list, scale: float):
        self.text(LEFT - 6, self.y + ROW - 4, name, 'text-anchor="end"')
        self.tops[row] = self.y
        for begin, end, purpose, label in merged(events, scale):
            color = COLORS.get(purpose, OTHER)
            self.parts.append(f'<rect x="{LEFT + begin:.1f}" y="{self.y}" width="{max(end - begin, 0.3):.1f}" '
                              f'height="{ROW - 2}" fill="{color}"><title>{html.escape(label)}</title></rect>')
        self.y += ROW

    def arrows(self, trace: dict, scales: dict):
        ends = collections.defaultdict(dict)
        for event in trace["traceEvents"]:
            if event["ph"] in "sf" and event["name"] == "message":
                ends[event["id"]][event["ph"]] = event
        for pair in ends.values():
            points = [(LEFT + e["ts"] * scales[e["pid"] % 2][0], self.tops[e["pid"], e["tid"]] + ROW / 2 - 1)
                      for e in (pair["s"], pair["f"])]
            self.parts.append('<path d="M{0[0]:.1f} {0[1]:.1f}L{1[0]:.1f} {1[1]:.1f}" stroke="#555" '
                              'stroke-width="0.6" fill="none" opacity="0.6"/>'.format(*points))

    def legend(self, purposes: list):
        x = LEFT
        for purpose in purposes:
            self.parts.append(f'<rect x="{x}" y="{self.y + 4}" width="10" height="10" '
                              f'fill="{COLORS.get(purpose, OTHER)}"/>')
            self.text(x + 14, self.y + 13, purpose)
            x += 24 + 7 * len(purpose)
        self.y += 24


def draw(trace: dict) -> str:
    processes, threads, slices = rows_of(trace)
    scales = scales_of(slices)
    about, picture = trace["otherData"], Picture()
    steps = f"steps {about['first_step']} to {about['last_step']}"
    if about["first_step"] == about["last_step"]:
        steps = f"step {about['first_step']}"
    took = ", ".join(f"{name} {scales[kind][1]:.0f} ms" for kind, name in ((1, "measured"), (0, "predicted"))
                     if kind in scales)
    picture.text(LEFT, 15, f"{steps}: {took}", 'font-weight="bold"')
    for pid, name in sorted(processes.items()):
        picture.text(4, picture.y + ROW - 4, name, 'font-weight="bold"')
        picture.y += ROW
        for row in sorted(r for r in threads if r[0] == pid):
            picture.row(row, threads[row], slices[row], scales[pid % 2][0])
        picture.y += GAP
    picture.arrows(trace, scales)
    used = {e["cat"] for events in slices.values() for e in events}
    picture.legend([p for p in COLORS if p in used] + sorted(used - set(COLORS)))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 10} {picture.y}" '
            'font-family="sans-serif" font-size="11">\n<rect width="100%" height="100%" fill="#ffffff"/>\n'
            + "\n".join(picture.parts) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("trace")
    parser.add_argument("-o", required=True, metavar="F.svg")
    arguments = parser.parse_args()
    with open(arguments.trace, encoding="utf-8") as file:
        picture = draw(json.load(file))
    with open(arguments.o, "w", encoding="utf-8") as file:
        file.write(picture)


if __name__ == "__main__":
    main()
