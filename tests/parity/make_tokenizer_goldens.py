"""Tiny tokenizers of each kind, trained here, and what Hugging Face's `tokenizers` makes of texts with them.

Writes NAME/tokenizer.json and NAME.json, a list of texts with their ids and what these decode to with and without
special tokens, for data/tokenizer's tests. Not run in tests: the stored files are. To make them again:
    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install tokenizers
    /tmp/venv/bin/python tests/parity/make_tokenizer_goldens.py data/tokenizer/testdata
"""

import json
import pathlib
import sys

import tokenizer_texts
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
# GPT-4o's, and classes that such expressions have: for the general matcher.
GENERAL = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
           r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
           r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
MARK = "\u2581"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def training_texts() -> list:
    texts = tokenizer_texts.Texts(0, [], [])
    return [" ".join(texts.word() for _ in range(40)) for _ in range(300)] + [texts.script() for _ in range(300)]


def byte_level(split, **model) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(training_texts(), trainers.BpeTrainer(
        vocab_size=700, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False))
    return tokenizer


def split_by(regex: str):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(regex), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def gpt2() -> Tokenizer:
    tokenizer = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def llama3() -> Tokenizer:
    tokenizer = byte_level(split_by(LLAMA3), ignore_merges=True)
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"])
    return tokenizer


def qwen2() -> Tokenizer:
    tokenizer = byte_level(split_by(QWEN2))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("<cafe\u0301>", normalized=True)])
    return tokenizer


def general() -> Tokenizer:
    tokenizer = byte_level(split_by(GENERAL))
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True), AddedToken("<end>", rstrip=True),
                                  AddedToken("<both>", lstrip=True, rstrip=True)])
    tokenizer.add_tokens([AddedToken("word", single_word=True), AddedToken("mode", normalized=True), "<", "<end", " of "])
    return tokenizer


def deepseek() -> Tokenizer:
    """Three expressions, one cutting what another has left."""
    expressions = (r"\p{N}{1,3}", "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+",
                   r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
                   r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""")
    splits = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in expressions]
    tokenizer = byte_level(pre_tokenizers.Sequence([*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]))
    tokenizer.add_special_tokens(["<\uFF5Cbegin\u2581of\u2581sentence\uFF5C>", "<\uFF5Cend\u2581of\u2581sentence\uFF5C>"])
    return tokenizer


def sentencepiece(normalizer, pre_tokenizer, decoder, special: list) -> Tokenizer:
    """Trained on words that begin with a mark, then used without cutting, as converted models are."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", MARK)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(MARK, "merged_with_next")
    tokenizer.train_from_iterator([" " + text for text in training_texts()], trainers.BpeTrainer(
        vocab_size=900, special_tokens=[*special, *BYTES], limit_alphabet=200, show_progress=False))
    file = json.loads(tokenizer.to_str())
    file["added_tokens"] = [token for token in file["added_tokens"] if token["content"] not in BYTES]
    tokenizer = Tokenizer.from_str(json.dumps(file))
    tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder = normalizer, pre_tokenizer, decoder
    return tokenizer


def llama2() -> Tokenizer:
    return sentencepiece(
        normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)]), None,
        decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]),
        ["<unk>", "<s>", "</s>"])


def gemma() -> Tokenizer:
    tokenizer = sentencepiece(
        normalizers.Replace(" ", MARK), pre_tokenizers.Split(" ", "merged_with_previous"),
        decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()]),
        ["<pad>", "<eos>", "<bos>", "<unk>"])
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in ("\n\n", "\n\n\n", MARK * 2, MARK * 3, "\t", "<b>")])
    return tokenizer


def mistral() -> Tokenizer:
    """With Metaspace at the first word only, as newer conversions have it."""
    return sentencepiece(
        None, pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="first", split=False),
        decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]),
        ["<unk>", "<s>", "</s>", "[INST]"])


def words() -> Tokenizer:
    """The options that the others do not have."""
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]", continuing_subword_prefix="##", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip(), normalizers.Replace(Regex(r"\s+"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Digits(individual_digits=True)])
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    tokenizer.train_from_iterator(training_texts(), trainers.BpeTrainer(
        vocab_size=700, special_tokens=["[UNK]"], limit_alphabet=150, continuing_subword_prefix="##",
        end_of_word_suffix="</w>", show_progress=False))
    tokenizer.add_tokens([AddedToken("Hello World", normalized=True), AddedToken("X", normalized=False, single_word=True)])
    return tokenizer


def metaspace() -> Tokenizer:
    """Metaspace before each piece, its decoder, and unknown characters that are not fused."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator(training_texts(), trainers.BpeTrainer(
        vocab_size=600, special_tokens=["<unk>"], limit_alphabet=120, show_progress=False))
    tokenizer.add_special_tokens(["<sep>"])
    return tokenizer


def partial() -> Tokenizer:
    """Byte-level, but without most bytes, and with a space put before each piece."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=True), decoders.ByteLevel()
    tokenizer.train_from_iterator(training_texts(), trainers.BpeTrainer(
        vocab_size=500, special_tokens=["<unk>", "<s>"], limit_alphabet=90, show_progress=False))
    return tokenizer


def make(tokenizer: Tokenizer, folder: pathlib.Path, seed: int):
    folder.mkdir(parents=True, exist_ok=True)
    file = json.loads(tokenizer.to_str())
    file["model"]["merges"] = [" ".join(merge) for merge in file["model"]["merges"]]
    (folder / "tokenizer.json").write_text(json.dumps(file, ensure_ascii=False), encoding="utf-8")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    goldens, texts = [], tokenizer_texts.Texts(seed, added, [])
    for pieces in [1] * 40 + [2] * 40 + [4] * 20 + [9] * 10:
        text = texts.text(pieces)[:150]
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        goldens.append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False),
                        "without_special": tokenizer.decode(ids, skip_special_tokens=True)})
    with open(f"{folder}.json", "w", encoding="utf-8") as output:
        output.write("[\n" + ",\n".join(json.dumps(golden, ensure_ascii=False) for golden in goldens) + "\n]\n")
    print(folder.name, tokenizer.get_vocab_size(), "tokens,", len(goldens), "texts")


if __name__ == "__main__":
    for number, kind in enumerate((gpt2, llama3, qwen2, general, deepseek, llama2, gemma, mistral, words, metaspace, partial)):
        make(kind(), pathlib.Path(sys.argv[1]) / kind.__name__, number + 1)
