"""What compiling costs: build_bench.py [--sample N] [--worst N] [--flags=FLAGS] [TARGET…]

Asks Bazel for the compile commands behind the targets (by default the four programs), runs each (or every N-th of a
folder) once, one at a time, outside Bazel's cache, and adds up the CPU seconds by folder. CPU time, so that a
machine's other work counts little. Sums over a sample are scaled to all units and marked "~".
"""

import argparse
import collections
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

PROGRAMS = ("//client:strata", "//controller:strata-controller", "//worker/agent:strata-worker",
            "//worker/trainer:strata-trainer")
# Rules whose outputs are C++ sources or headers: they must exist before a unit can be compiled.
GENERATORS = "genrule|_unity_source"


def bazel(*arguments: str) -> str:
    return subprocess.run(["bazel", *arguments], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True).stdout


def compile_commands(graph: dict) -> dict:
    """Source → command line, from the action graph as JSON."""
    commands = {}
    for action in graph.get("actions", []):
        arguments = action["arguments"]
        if action["mnemonic"] == "CppCompile" and "-c" in arguments:
            commands[arguments[arguments.index("-c") + 1]] = arguments
    return commands


def folder_of(source: str) -> str:
    """The folder in the tree, for generated sources too (bazel-out/CONFIGURATION/bin/FOLDER/FILE)."""
    parts = pathlib.PurePosixPath(source).parent.parts
    return "/".join(parts[3:] if parts[:1] == ("bazel-out",) else parts)


def runnable(command: list, output_path: str, folder: str) -> list:
    """The same compilation outside Bazel's own folders: objects and dependency files go to `folder`."""
    result, after = [], None
    for word in command:
        if after in ("-o", "-MF"):
            word = os.path.join(folder, "object" if after == "-o" else "dependencies")
        elif word.startswith("bazel-out/"):
            word = output_path + word[len("bazel-out"):]
        result.append(word)
        after = word
    return result


def cpu_seconds(command: list) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def sampled(commands: dict, every: int) -> list:
    """Every N-th source of each folder, at least one."""
    by_folder = collections.defaultdict(list)
    for source in sorted(commands):
        by_folder[folder_of(source)].append(source)
    return [source for sources in by_folder.values() for source in sources[::every]]


def table(commands: dict, seconds: dict, worst: int) -> list:
    """The report's lines from the seconds of the sources that were compiled."""
    units, measured, sums = collections.Counter(), collections.Counter(), collections.Counter()
    for source in commands:
        units[folder_of(source)] += 1
    for source, cpu in seconds.items():
        measured[folder_of(source)] += 1
        sums[folder_of(source)] += cpu
    totals = {folder: sums[folder] * units[folder] / measured[folder] for folder in measured}
    mark = "~" if sum(measured.values()) < sum(units.values()) else ""
    lines = ["| folder | units | CPU s |", "|---|---:|---:|"]
    for folder in sorted(totals, key=lambda name: (-totals[name], name)):
        about = mark if measured[folder] < units[folder] else ""
        lines.append(f"| {folder} | {units[folder]} | {about}{totals[folder]:.1f} |")
    lines.append(f"| all | {sum(units.values())} | {mark}{sum(totals.values()):.0f} |")
    if worst:
        lines += ["", "| unit | CPU s |", "|---|---:|"]
        for source in sorted(seconds, key=seconds.get, reverse=True)[:worst]:
            name = source if not source.startswith("bazel-out") else "/".join(source.split("/")[3:])
            lines.append(f"| {name} | {seconds[source]:.1f} |")
    return lines


def main(arguments: list) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="compile every N-th unit of a folder")
    parser.add_argument("--worst", type=int, default=20, metavar="N", help="also list the N slowest units")
    parser.add_argument("--flags", default="", help="flags for Bazel, e.g. --config=asan")
    parser.add_argument("targets", nargs="*", default=PROGRAMS)
    options = parser.parse_args(arguments)

    flags, targets = options.flags.split(), " + ".join(options.targets)
    generated = bazel("query", f"kind('{GENERATORS}', deps({targets}))").split()
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "strata/bazel")
    bazel("build", f"--disk_cache={cache}", *flags, *generated)
    graph = json.loads(bazel("aquery", *flags, "--output=jsonproto", f"mnemonic('CppCompile', deps({targets}))"))
    commands, output_path = compile_commands(graph), bazel("info", "output_path").strip()

    seconds = {}
    with tempfile.TemporaryDirectory() as folder:
        for source in sampled(commands, options.sample):
            seconds[source] = cpu_seconds(runnable(commands[source], output_path, folder))
            print(f"{seconds[source]:6.1f} {source}", file=sys.stderr)
    print("\n".join(table(commands, seconds, options.worst)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
