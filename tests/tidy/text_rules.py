"""Rules about the text of single files: lengths, guards, words and calls with a better replacement."""

import re

import functions
from layers import inside

FILE_LINES, KERNEL_FILE_LINES, FUNCTION_LINES, COLUMNS = 500, 800, 70, 100

# Functions that may be long: kernels, and tables written as code. path: names, None for all.
LONG_FUNCTIONS = {
    "kernels": None,
}

CPP = (".h", ".cc", ".cu", ".cuh")
SCRIPTS = (".py", ".sh", ".bzl")

# rule: pattern, where it may stand (folders, or ends of file names), what to do instead.
BANNED = [
    (r"\busing namespace\b", (), "name what is used: using absl::StrCat;"),
    (r"\babsl::(Mutex|MutexLock|ReaderMutexLock|CondVar)\b", (), "std::mutex and std::condition_variable, which the "
     "thread sanitizer understands"),
    (r"\babsl::Now\b|\b(system|steady|high_resolution)_clock::now\b|\bgettimeofday\(|\bclock_gettime\(",
     ("common", "tests", "_test.cc", "_bench.cc"), "take a common::Clock through the constructor"),
    (r"\bstd::(thread|jthread|async)\b(?!::)",
     ("device", "worker", "collectives", "checkpoint", "common", "tests", "_test.cc", "_test_support.h", "_bench.cc",
      "data/prepare/encode_pool.h", "data/prepare/encode_pool.cc",  # encode documents on every core
      "controller/metrics/metrics.cc",  # wakes the metrics library's own thread at the end
      "controller/service/transport",  # waits in poll(), in epoll_wait() and for MUNGE's daemon
      "controller/service/files/file_pool.cc",  # what may hang for ever on a file system
      "controller/service/reactor/read_pool.h",  # beside the writer and gRPC
      "controller/service/reactor/read_pool.cc",
      "memory/ssd/threads_backend.cc"),  # one per request that waits for the disk
     "threads belong to device, worker, collectives and checkpoint: use what they offer"),
    (r"(?<![\w.>])(std::)?(quick_)?exit\(", ("tests",), "return a status up to main"),
    (r"(?<![\w.>])(std::)?abort\(", ("common/check.h",), "STRATA_CHECK for invariants, absl::Status for the rest"),
    (r"(?<![\w.>:])(std::)?(system|popen)\(", (), "fork and execve with an argument list: no shell"),
    (r"(?<![\w.>:])assert\(", (), "STRATA_CHECK, which stays on in every build"),
    (r"\bthrow\b", (), "return an absl::Status"),
    (r"(?<![\w.>])(std::)?(rand|srand|random_shuffle)\(|\bstd::random_device\b|\bstd::default_random_engine\b", (),
     "common/rng.h: numbers that are a function of key and counter"),
    (r"\bstd::normal_distribution\b|\bstd::uniform_(int|real)_distribution\b", ("_test.cc", "_bench.cc", "tests"),
     "common/rng.h: library distributions differ between libraries"),
    (r"\bDISABLED_\w", (), "mend the test or remove it"),
]
SLEEP = re.compile(r"\bsleep_(for|until)\(|(?<![\w.>])(u|nano)?sleep\(|\babsl::SleepFor\(")
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
# Traces of one person's machine or of how a text came to be; the brackets keep this file out.
FOREIGN = re.compile(
    r"(?<![\w.])/(work|root|home/\w+)/|[c]o-authored-by|\b([c]laude|[a]nthropic|[c]opilot|[c]hatgpt)\b|"
    r"\b[i]ssue #?\d|\b[a]i[- ]generated\b|\b(language[- ]model|[a]i) [a]ssistant\b", re.I)
LOAD = re.compile(r'^\s*load\(\s*"([^"]+)"', re.M)


def exempt(path: str, places) -> bool:
    return any(path.endswith(p) if p.startswith("_") else inside(path, p) for p in places)


def check_words(path: str, lines: list):
    """All text files."""
    for number, line in enumerate(lines, 1):
        if UNFINISHED.search(line):
            yield number, "unfinished", "finish it, or say in plain words what is not supported"
        if found := FOREIGN.search(line):
            yield number, "foreign", f"'{found.group()}' says nothing about this project: leave it out"


def check_columns(path: str, lines: list):
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS and "http" not in line:
            yield number, "columns", f"{len(line)} columns: at most {COLUMNS}"


def check_file_length(path: str, lines: list):
    limit = KERNEL_FILE_LINES if inside(path, "kernels") else FILE_LINES
    if len(lines) > limit:
        yield limit + 1, "file-length", f"{len(lines)} lines: at most {limit}, about 150 is typical; split by concept"


def check_guard(path: str, lines: list):
    guard = "STRATA_" + re.sub(r"[^A-Z0-9]", "_", path.upper()) + "_"
    ifndef = next((i for i, l in enumerate(lines) if l.startswith(("#ifndef", "#pragma once", "#if "))), None)
    if ifndef is None or lines[ifndef:ifndef + 2] != [f"#ifndef {guard}", f"#define {guard}"]:
        yield (ifndef or 0) + 1, "guard", f"#ifndef {guard}, #define {guard}"


def check_function_length(path: str, text: str):
    for line, name, count in functions.functions(text):
        allowed = any(inside(path, place) and (names is None or name in names)
                      for place, names in LONG_FUNCTIONS.items())
        if count > FUNCTION_LINES and not allowed:
            yield line, "function-length", f"{name} has {count} lines: at most {FUNCTION_LINES}; name its parts"


def check_calls(path: str, text: str):
    """Banned calls, outside comments and literals."""
    test = path.endswith("_test.cc") or inside(path, "tests")
    for number, line in enumerate(functions.blank(text).split("\n"), 1):
        for pattern, places, instead in BANNED:
            if (found := re.search(pattern, line)) and not exempt(path, places):
                yield number, "banned", f"{found.group().strip()}: {instead}"
        if test and (found := SLEEP.search(line)):
            yield number, "banned", f"{found.group()}: wait for the condition itself"


def check_build_file(path: str, text: str):
    for found in LOAD.finditer(text):
        if found.group(1) != "//bazel:defs.bzl":
            line = text.count("\n", 0, found.start(1)) + 1
            yield line, "build-file", f"load only //bazel:defs.bzl, not {found.group(1)}"
