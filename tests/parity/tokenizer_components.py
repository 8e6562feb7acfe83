"""Random combinations of a tokenizer's parts against Hugging Face's: tokenizer_components.py [--seed N] [--rounds N]

Puts random normalizers, pre-tokenizers, decoders, model options and added tokens around the small models of
data/tokenizer/testdata and compares each with tokenizer_parity.py's means on a few thousand characters of text.
"""

import argparse
import json
import os
import pathlib
import random
import sys
import tempfile

import tokenizer_parity as parity

SPLITS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
REGEXES = [r"\s+", r"\p{L}+", r"[^\s\p{L}\p{N}]+", r"\d{1,2}", r"\w+|[^\w\s]+", r"a*", r"(?=\p{Lu})", r"(?i:'s|'t)|\p{P}", r"[\r\n]+",
           r"(?<=\d)(?=\p{L})", r"\S+?e", r"(?>\p{L}+)\p{M}?", r".{3}", r"[\p{Ll}\u4e00-\u9fff\-]{2,}", r"x{0}|o"]
MARK = "\u2581"


class Parts:
    def __init__(self, seed: int):
        self.random = random.Random(seed)

    def some(self, makers: list, most: int) -> list:
        return [self.random.choice(makers)() for _ in range(self.random.randint(0, most))]

    def flip(self) -> bool:
        return self.random.random() < 0.5

    def pattern(self) -> dict:
        if self.flip():
            return {"Regex": self.random.choice(REGEXES)}
        return {"String": self.random.choice([" ", "e", "th", "\n", "  ", "'", MARK, "é", ".", "aa", "0"])}

    def normalizers(self):
        replace = lambda: {"type": "Replace", "pattern": self.pattern(), "content": self.random.choice(["", " ", "x", MARK, "<<"])}
        makers = [lambda: {"type": self.random.choice(["NFC", "NFD", "NFKC", "NFKD"])}, lambda: {"type": "Lowercase"}, replace, replace,
                  lambda: {"type": "Strip", "strip_left": self.flip(), "strip_right": self.flip()},
                  lambda: {"type": "Prepend", "prepend": self.random.choice([MARK, " ", "ab"])}]
        return self.sequence("normalizers", self.some(makers, 3))

    def pre_tokenizers(self):
        split = lambda: {"type": "Split", "pattern": self.pattern(), "behavior": self.random.choice(SPLITS), "invert": self.flip()}
        makers = [split, split, split, lambda: {"type": "Digits", "individual_digits": self.flip()}, lambda: {"type": "Whitespace"},
                  lambda: {"type": "Punctuation", "behavior": self.random.choice(SPLITS)}, lambda: {"type": "WhitespaceSplit"},
                  lambda: {"type": "CharDelimiterSplit", "delimiter": self.random.choice("eé \n")},
                  lambda: {"type": "Metaspace", "replacement": self.random.choice([MARK, "_"]), "split": self.flip(),
                           "prepend_scheme": self.random.choice(["always", "first", "never"])}]
        steps = self.some(makers, 3)
        if self.flip():
            steps.insert(self.random.choice([len(steps), len(steps), 0]),
                         {"type": "ByteLevel", "add_prefix_space": self.flip(), "trim_offsets": True, "use_regex": self.flip()})
        return self.sequence("pretokenizers", steps)

    def decoders(self):
        makers = [lambda: {"type": "Replace", "pattern": {"String": self.random.choice([MARK, "e", "##"])}, "content": self.random.choice([" ", "", "é"])},
                  lambda: {"type": "ByteFallback"}, lambda: {"type": "BPEDecoder", "suffix": self.random.choice(["</w>", "e"])},
                  lambda: {"type": "Metaspace", "replacement": MARK, "split": True, "prepend_scheme": self.random.choice(["always", "never"])},
                  lambda: {"type": "Strip", "content": self.random.choice([" ", "e"]), "start": self.random.randint(0, 2), "stop": 0}]
        steps = self.some(makers, 3)
        if self.flip():
            steps.append({"type": self.random.choice(["Fuse", "ByteLevel"])})
            steps += [{"type": "Strip", "content": " ", "start": self.random.randint(0, 2), "stop": 0}] * self.flip()
        for step in steps:
            if step["type"] == "ByteLevel":
                step.update(add_prefix_space=True, trim_offsets=True, use_regex=True)
        return self.sequence("decoders", steps)

    def sequence(self, key: str, steps: list):
        if not steps:
            return None
        return steps[0] if len(steps) == 1 and self.flip() else {"type": "Sequence", key: steps}

    def added(self, first_id: int) -> list:
        contents = self.random.sample(["<s>", "<", "<s", "word", " of ", "\n", "\n\n", "é", "e\u0301", "THE", MARK, "1", "'s", "  ", "東京"],
                                      self.random.randint(0, 6))
        return [{"id": first_id + i, "content": content, "single_word": self.random.random() < 0.2, "lstrip": self.random.random() < 0.3,
                 "rstrip": self.random.random() < 0.3, "normalized": self.flip(), "special": self.flip()} for i, content in enumerate(contents)]

    def tokenizer(self) -> dict:
        folder = self.random.choice(sorted(parity.TRAINED.values()))
        file = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        model = file["model"]
        model.update(fuse_unk=self.flip(), byte_fallback=self.flip(), ignore_merges=self.flip())
        if self.random.random() < 0.3:
            model["unk_token"] = None
        file.update(normalizer=self.normalizers(), pre_tokenizer=self.pre_tokenizers(), decoder=self.decoders(), post_processor=None,
                    added_tokens=self.added(len(model["vocab"])))
        return file


def works(tokenizer, text: str) -> bool:
    """Whether the library can encode the text: at some it panics."""
    try:
        tokenizer.decode(tokenizer.encode(text, add_special_tokens=False).ids)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=100)
    arguments = parser.parse_args()
    os.environ["RUST_BACKTRACE"] = "0"
    parity.with_library()
    import tokenizer_texts
    import tokenizers
    binary, failed, refused = parity.built("//data/tokenizer:tokenize"), 0, 0
    for seed in range(arguments.seed, arguments.seed + arguments.rounds):
        file = Parts(seed).tokenizer()
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "tokenizer.json").write_text(json.dumps(file, ensure_ascii=False), encoding="utf-8")
            try:
                tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
            except BaseException as error:  # it panics at some
                if isinstance(error, KeyboardInterrupt):
                    raise
                print(f"seed {seed}: the library refuses it: {error}")
                continue
            added = [token["content"] for token in file["added_tokens"]]
            texts = list(tokenizer_texts.Texts(seed, added, []).all(6000))
            texts = [text for text in texts if works(tokenizer, text)]
            texts += parity.random_ids(seed, tokenizer, len(texts))
            reason = parity.refusal(binary, folder)
            if reason:
                refused += 1
                print(f"seed {seed}: refused: {reason}")
                continue
            differ = parity.compare(f"seed {seed}", binary, folder, tokenizer, texts)
            if differ:
                print(json.dumps({key: file[key] for key in ("normalizer", "pre_tokenizer", "decoder", "added_tokens")}, ensure_ascii=False),
                      {key: value for key, value in file["model"].items() if key not in ("vocab", "merges")})
            failed += differ
    print(f"{failed} texts differ, {refused} tokenizers refused")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
