"""Counts tests over several Bazel runs: test_summary.py EVENTS.json… (--build_event_json_file of each run).

A GoogleTest program counts with each of its cases, any other test target as one, a target that does not
build as one failure, and so does a run that ended early. Where the time went is told too: the slowest tests, and
from EVENTS.profile.gz (--profile of the same run), where it exists, the seconds of its compilers, linkers and
tests, added up over parallel ones. The last line is "N passed, N failed"; the exit status is 0 when something
passed and nothing failed.
"""

import collections
import gzip
import json
import pathlib
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field

# Exit codes of `bazel test` whose reasons stand in the events themselves: success, a failed build, failed tests.
EXPLAINED = (0, 1, 3)
# What Bazel calls its actions while they run, and what they are.
KINDS = {"Compiling": "compiling", "Linking": "linking", "Testing": "testing"}
MOST_SLOW = 20


@dataclass
class Count:
    passed: int = 0
    skipped: int = 0
    failures: list = field(default_factory=list)  # one line each

    def add(self, other: "Count"):
        self.passed += other.passed
        self.skipped += other.skipped
        self.failures += other.failures


def read_events(path: pathlib.Path) -> list:
    """The events of a run; a last line cut off in the middle is left out."""
    events = []
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return events
    for line in lines:
        try:
            events.append(json.loads(line))
        except ValueError:
            break
    return events


def count_cases(label: str, status: str, xml: str | None) -> Count:
    """One execution of a test target: the cases of its XML report, else the target as a whole."""
    count = Count()
    try:
        cases = list(ElementTree.fromstring(xml or "").iter("testcase"))
    except ElementTree.ParseError:
        cases = []
    for case in cases:
        name = ".".join(part for part in (case.get("classname"), case.get("name")) if part)
        if case.find("failure") is not None or case.find("error") is not None:
            count.failures.append(f"{label}: {name}")
        elif case.get("status") == "notrun" or case.get("result") in ("skipped", "suppressed"):
            count.skipped += 1
        else:
            count.passed += 1
    if status != "PASSED" and not count.failures:  # it died before its report, or after it
        count.failures.append(f"{label}: {status}")
    if status == "PASSED" and not cases:
        count.passed += 1
    return count


def read_report(result: dict) -> str | None:
    for output in result.get("testActionOutput", []):
        if output.get("name") == "test.xml" and output.get("uri", "").startswith("file://"):
            path = urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path)
            try:
                return pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
            except OSError:
                return None
    return None


def count_run(name: str, events: list, read_report=read_report) -> Count:
    """All tests of one run, from its events."""
    total, executions, unbuilt, code = Count(), {}, [], None
    for event in events:
        identity = event.get("id", {})
        if "testResult" in identity:
            key = identity["testResult"]
            executions[key["label"], key.get("run"), key.get("shard")] = event.get("testResult", {})
        elif event.get("aborted", {}).get("reason") == "SKIPPED":
            continue  # not for this configuration: CUDA without --config=cuda
        elif "targetCompleted" in identity and not event.get("completed", {}).get("success"):
            unbuilt.append(identity["targetCompleted"]["label"])
        elif "buildFinished" in identity:
            code = event.get("finished", {}).get("exitCode", {}).get("code", 0)
    for (label, _, _), result in executions.items():
        total.add(count_cases(f"{name}: {label}", result.get("status", "NO_STATUS"), read_report(result)))
    total.failures += [f"{name}: {label}: does not build" for label in sorted(set(unbuilt))]
    if code not in EXPLAINED or (code != 0 and not total.failures):
        total.failures.append(f"{name}: Bazel ended with {'no exit code' if code is None else f'exit code {code}'}")
    return total


def test_seconds(events: list) -> dict:
    """Label → seconds of the tests that this run executed; several shards or attempts add up."""
    seconds = collections.Counter()
    for event in events:
        result = event.get("testResult", {})
        if result.get("cachedLocally") or result.get("executionInfo", {}).get("cachedRemotely"):
            continue
        if "testAttemptDurationMillis" in result:
            seconds[event["id"]["testResult"]["label"]] += int(result["testAttemptDurationMillis"]) / 1000
    return seconds


def action_seconds(profile: dict) -> dict:
    """Kind of action → seconds, from a profile in Chrome's trace format; nothing for other actions."""
    seconds = collections.Counter()
    for event in profile.get("traceEvents", []):
        kind = KINDS.get(event.get("name", "").split(" ", maxsplit=1)[0])
        if kind and event.get("cat") == "action processing":
            seconds[kind] += event.get("dur", 0) / 1e6
    return seconds


def read_profile(events_path: pathlib.Path) -> dict:
    """The profile beside the events; empty without one, or where Bazel was ended while it wrote."""
    try:
        with gzip.open(events_path.with_suffix(".profile.gz"), "rt", encoding="utf-8", errors="replace") as file:
            return json.load(file)
    except (OSError, EOFError, ValueError):
        return {}


def main(paths: list) -> int:
    total, slow = Count(), {}
    for path in map(pathlib.Path, paths):
        events = read_events(path)
        count = count_run(path.stem, events)
        skipped = f", {count.skipped} skipped" if count.skipped else ""
        seconds = action_seconds(read_profile(path))
        spent = "".join(f"; {kind} {seconds[kind]:.0f} s" for kind in KINDS.values() if kind in seconds)
        print(f"{path.stem}: {count.passed} passed, {len(count.failures)} failed{skipped}{spent}")
        slow.update({f"{path.stem}: {label}": taken for label, taken in test_seconds(events).items()})
        total.add(count)
    for label in sorted(slow, key=slow.get, reverse=True)[:MOST_SLOW]:
        print(f"{slow[label]:8.1f} s {label}")
    for failure in total.failures:
        print(f"FAILED {failure}")
    print(f"{total.passed} passed, {len(total.failures)} failed")
    return 0 if total.passed and not total.failures else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
