"""Conversations and a tokenizer to train on, small and made without any library: `python3 chat_files.py FOLDER`
writes FOLDER/chat.jsonl and FOLDER/tokenizer (deploy/examples/chat holds what it writes)."""

import collections
import json
import pathlib
import re
import sys

CAPITALS = {
    "Austria": "Vienna", "Belgium": "Brussels", "Chile": "Santiago", "Denmark": "Copenhagen", "Egypt": "Cairo",
    "Finland": "Helsinki", "France": "Paris", "Germany": "Berlin", "Greece": "Athens", "Hungary": "Budapest",
    "Iceland": "Reykjavik", "India": "New Delhi", "Ireland": "Dublin", "Italy": "Rome", "Japan": "Tokyo",
    "Kenya": "Nairobi", "Latvia": "Riga", "Mexico": "Mexico City", "Nepal": "Kathmandu", "Norway": "Oslo",
    "Peru": "Lima", "Poland": "Warsaw", "Portugal": "Lisbon", "Spain": "Madrid", "Sweden": "Stockholm",
    "Thailand": "Bangkok", "Turkey": "Ankara", "Uruguay": "Montevideo", "Vietnam": "Hanoi", "Zambia": "Lusaka",
}
QUESTIONS = ["What is the capital of {}?", "Name the capital of {}.", "Which city is the capital of {}?"]
ANSWERS = ["The capital of {0} is {1}.", "{1} is the capital of {0}.", "It is {1}."]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>'"
            " + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
MERGES = 200


def conversations() -> list:
    """Each country in each wording, and conversations of two turns."""
    found = []
    for question, answer in zip(QUESTIONS, ANSWERS):
        for country, city in CAPITALS.items():
            found.append([("user", question.format(country)), ("assistant", answer.format(country, city))])
    names = list(CAPITALS.items())
    for (country, city), (other, capital) in zip(names, names[7:] + names[:7]):
        found.append([("system", "Answer in a word."), ("user", QUESTIONS[0].format(country)), ("assistant", city + "."),
                      ("user", f"And of {other}?"), ("assistant", capital + ".")])
    return [{"messages": [{"role": role, "content": text} for role, text in turns]} for turns in found]


def byte_letters() -> list:
    """The character that stands for each byte in byte-level vocabularies, as GPT-2 chose them."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = (byte for byte in range(256) if byte not in plain)
    letters = {byte: chr(byte) for byte in plain}
    letters.update({byte: chr(256 + i) for i, byte in enumerate(rest)})
    return [letters[byte] for byte in range(256)]


def merges(texts: list) -> list:
    """Byte pair encoding: the most frequent pair of neighbours becomes one, again and again."""
    letters = byte_letters()
    words = collections.Counter(word for text in texts for word in re.findall(r" ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+", text))
    split = {word: [letters[byte] for byte in word.encode()] for word in words}
    found = []
    while len(found) < MERGES:
        pairs = collections.Counter()
        for word, count in words.items():
            for pair in zip(split[word], split[word][1:]):
                pairs[pair] += count
        if not pairs:
            break
        left, right = max(pairs, key=lambda pair: (pairs[pair], pair))
        found.append((left, right))
        for word, parts in split.items():
            at = 0
            while at + 1 < len(parts):
                if (parts[at], parts[at + 1]) == (left, right):
                    parts[at:at + 2] = [left + right]
                at += 1
    return found


def write_tokenizer(folder: pathlib.Path, texts: list):
    folder.mkdir(parents=True, exist_ok=True)
    pairs = merges(texts)
    vocabulary = {letter: i for i, letter in enumerate(byte_letters())}
    for left, right in pairs:
        vocabulary.setdefault(left + right, len(vocabulary))
    first = len(vocabulary)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": first + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i, text in enumerate(SPECIAL)],
        "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": vocabulary, "merges": [f"{left} {right}" for left, right in pairs]}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False) + "\n")
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": SPECIAL[2], "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")


def write(folder: pathlib.Path):
    folder.mkdir(parents=True, exist_ok=True)
    records = conversations()
    (folder / "chat.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    write_tokenizer(folder / "tokenizer", [m["content"] for record in records for m in record["messages"]])


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))
