"""The tree's own rules: tidy.py [ROOT]. Prints `file:line: rule: what to do` for each violation; exit status 1 if any.

Looked at are the files git tracks or would track. The rules: layers.py (includes against the design's folder
table), text_rules.py and functions.py (lengths, guards, words, calls), and clang-format.
"""

import os
import pathlib
import re
import subprocess
import sys

import layers
import text_rules

GENERATED = re.compile(r"(^|/)(testdata|golden)/|\.(golden|svg|csv|json|jsonl|safetensors|txt)$")


def tracked(root: pathlib.Path) -> list:
    """Paths below root, as git sees them; without git (an unpacked archive) all but out/ and dot folders."""
    git = subprocess.run(["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                         capture_output=True)
    if git.returncode == 0:
        names = {name.decode() for name in git.stdout.split(b"\0") if name}
    else:
        names = set()
        for folder, folders, files in os.walk(root):
            folders[:] = [f for f in folders if f not in ("out", ".git") and not f.startswith("bazel-")]
            names |= {str(pathlib.Path(folder, f).relative_to(root)) for f in files}
    return sorted(name for name in names if (root / name).is_file() and not (root / name).is_symlink())


def check_text(path: str, text: str):
    """All rules but clang-format on one file; yields (line, rule, what to do)."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    end = pathlib.PurePath(path).suffix
    if GENERATED.search(path):
        return
    yield from text_rules.check_words(path, lines)
    if end in (*text_rules.CPP, *text_rules.SCRIPTS) or path == "dev":
        yield from text_rules.check_file_length(path, lines)
    if end in (*text_rules.CPP, ".proto"):
        yield from text_rules.check_columns(path, lines)
    if end in text_rules.CPP:
        yield from layers.check_includes(path, lines)
        yield from text_rules.check_function_length(path, text)
        yield from text_rules.check_calls(path, text)
    if end in (".h", ".cuh"):
        yield from text_rules.check_guard(path, lines)
    if pathlib.PurePath(path).name in ("BUILD", "BUILD.bazel"):
        yield from text_rules.check_build_file(path, text)


def check_format(root: pathlib.Path, paths: list):
    """Yields (path, line, rule, what to do) for each place that clang-format would change."""
    if not paths:
        return
    try:
        run = subprocess.run(["clang-format", "--dry-run", "--style=file", *paths], cwd=root, capture_output=True,
                             text=True)
    except FileNotFoundError:
        yield "dev", 1, "format", "clang-format is not installed: ./dev setup"
        return
    places = re.findall(r"^(\S+?):(\d+):\d+: (?:warning|error):", run.stderr, re.M)
    if run.returncode != 0 and not places:
        yield ".clang-format", 1, "format", f"clang-format failed: {run.stderr.strip()[:300]}"
    for path in dict.fromkeys(path for path, _ in places):
        line = next(int(l) for p, l in places if p == path)
        yield path, line, "format", f"clang-format -i {path}"


def main(root: pathlib.Path) -> int:
    paths, found, looked = tracked(root), [], 0
    for path in paths:
        try:
            text = (root / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # not a text
        looked += 1
        found += [(path, *violation) for violation in check_text(path, text)]
    found += check_format(root, [p for p in paths if pathlib.PurePath(p).suffix in text_rules.CPP])
    for path, line, rule, what in sorted(found):
        print(f"{path}:{line}: {rule}: {what}")
    print(f"{looked} files, {len(found)} violations")
    return 1 if found or not looked else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]))
