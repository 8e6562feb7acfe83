"""The seeds of the fuzz targets: small good inputs of every kind, from which the mutations begin.

Not run in tests: the stored files are. To make them again, from the tree's root (needs protoc):
    python3 tests/fuzz/make_seeds.py
"""

import json
import pathlib
import struct
import subprocess

SEEDS = pathlib.Path("tests/fuzz/seeds")


def write(target, name, content):
    folder = SEEDS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def safetensors():
    tensors = {
        "__metadata__": {"format": "pt"},
        "a.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]},
        "empty": {"dtype": "I64", "shape": [0], "data_offsets": [32, 32]},
    }
    write("safetensors_fuzz", "three", struct.pack("<I", 32) + json.dumps(tensors).encode())
    write("safetensors_fuzz", "none", struct.pack("<I", 0) + b"{}   ")


def configs():
    llama = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
             "num_hidden_layers": 2, "num_key_value_heads": None, "vocab_size": 100, "torch_dtype": "bfloat16",
             "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                                      "high_freq_factor": 4.0,
                                                      "original_max_position_embeddings": 128}}
    gemma3 = {"model_type": "gemma3", "dtype": "float32", "text_config": {
        "num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"], "rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}}}
    phi3 = {"model_type": "phi3", "hidden_size": 32, "num_attention_heads": 4, "partial_rotary_factor": 0.5,
            "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.5], "long_factor": [2, 4]}}
    qwen = {"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 1, "num_hidden_layers": 3,
            "rope_scaling": {"type": "yarn", "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 0.5}}
    gpt2 = {"model_type": "gpt2", "n_embd": 48, "n_head": 3, "n_inner": None, "activation_function": "gelu_new"}
    for name, config in (("llama", llama), ("gemma3", gemma3), ("phi3", phi3), ("qwen2", qwen), ("gpt2", gpt2)):
        write("config_fuzz", name, json.dumps(config))
    index = {"metadata": {"total_size": 32, "other": [1, {"weight_map": None}]},
             "weight_map": {"a.weight": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    write("weights_index_fuzz", "two", json.dumps(index))


def token_files():
    goldens = pathlib.Path("data/files/goldens")
    for name in ("llmq_v1.bin", "llmq_v2.bin", "llmc_gpt2.bin", "llmc_llama3.bin", "llmc_choices.bin"):
        write("token_file_fuzz", name, b"t" + (goldens / name).read_bytes())
    write("token_file_fuzz", "raw", b"r" + (goldens / "raw.bin").read_bytes())
    write("token_file_fuzz", "documents", b"d" + (goldens / "llmq_v2.bin.documents").read_bytes())
    for name in ("megatron", "megatron_wide", "megatron_long", "megatron_bytes"):
        size = (goldens / f"{name}.bin").stat().st_size
        write("token_file_fuzz", name, b"m" + struct.pack("<H", size) + (goldens / f"{name}.idx").read_bytes())


def byte_characters():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return {**{b: chr(b) for b in printable}, **{b: chr(256 + i) for i, b in enumerate(others)}}


def tokenizers():
    characters = byte_characters()
    vocabulary = {characters[b]: b for b in range(256)} | {"th": 256, "the": 257, "\u0120the": 258}
    added = [{"id": 259, "content": "<|endoftext|>", "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True}]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocabulary,
             "merges": ["t h", "th e", "\u0120 the"]}
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
             "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level, "model": model}
    write("tokenizer_fuzz", "gpt2", json.dumps(whole))
    split = {"type": "Split", "pattern": {"Regex": r"\p{N}{1,3}|\s+(?!\S)|[^\r\n]"}, "behavior": "Isolated",
             "invert": False}
    whole["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}
    whole["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, {**byte_level, "use_regex": False}]}
    write("tokenizer_fuzz", "split", json.dumps(whole))
    pieces = {"<unk>": 0, "<s>": 1, "</s>": 2, "\u2581": 3, "t": 4, "h": 5, "e": 6, "th": 7, "the": 8,
              "\u2581the": 9, **{f"<0x{b:02X}>": 10 + b for b in range(256)}}
    whole.update(
        added_tokens=[{**added[0], "id": i, "content": c} for i, c in enumerate(("<unk>", "<s>", "</s>"))],
        normalizer={"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, {
            "type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
        pre_tokenizer=None,
        decoder={"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        model={**model, "byte_fallback": True, "unk_token": "<unk>", "fuse_unk": True, "vocab": pieces,
               "merges": [["t", "h"], ["th", "e"], ["\u2581", "the"]]})
    write("tokenizer_fuzz", "sentencepiece", json.dumps(whole))


def records():
    kinds = {
        "text": {"text": "the text, with \u00e9 and \u6211"},
        "messages": {"messages": [{"role": "system", "content": "be short"},
                                  {"role": "user", "content": [{"type": "text", "text": "hi"}]},
                                  {"role": "assistant", "content": "hello"}]},
        "tools": {"messages": [{"role": "user", "content": "sum?"}, {"role": "assistant", "content": "", "tool_calls": [
            {"type": "function", "function": {"name": "sum", "arguments": {"a": 1}}}]},
            {"role": "tool", "content": "3"}, {"role": "assistant", "content": "3"}],
            "tools": [{"type": "function", "function": {"name": "sum", "parameters": {}}}]},
        "sharegpt": {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]},
        "alpaca": {"instruction": "do", "input": "it", "output": "done", "system": "s", "history": [["u", "a"]]},
        "completion": {"prompt": "one ", "completion": "two"},
    }
    for name, record in kinds.items():
        write("records_fuzz", name, json.dumps(record, ensure_ascii=name == "tools"))


def chat_templates():
    chatml = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
              "'<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
              "{% endif %}")
    everything = (
        "{%- set ns = namespace(last=0, found=false) -%}{%- macro show(x, n=1) -%}{{ x | trim | tojson }}"
        "{%- endmacro -%}{%- if messages[0].role == 'system' -%}{%- set rest = messages[1:] -%}{%- else -%}"
        "{%- set rest = messages -%}{%- endif -%}{%- for m in rest -%}{%- if loop.first -%}<s>{%- endif -%}"
        "{%- if m.role == 'assistant' and m.tool_calls is defined -%}{%- for call in m.tool_calls -%}"
        "{{ call.function.name }}({{ call.function.arguments | tojson }}){%- endfor -%}{%- elif m.role == 'tool' -%}"
        "[{{ show(m.content) }}]{%- else -%}{{ m['content'].split('</think>')[-1].strip('\n') ~ loop.index0 }}"
        "{%- endif -%}{%- set ns.last = ns.last + 1 -%}{%- endfor -%}{{ raise_exception('end') if ns.last > 99 "
        "else strftime_now('%d %b %Y') }}")
    write("chat_template_fuzz", "chatml", chatml)
    write("chat_template_fuzz", "everything", everything)


def yaml_files():
    examples = pathlib.Path("deploy/examples")
    for kind, name in (("j", "bible.yaml"), ("p", "policy.yaml"), ("t", "two_zones.yaml")):
        write("yaml_fuzz", name.removesuffix(".yaml"), kind + (examples / name).read_text())
    write("yaml_fuzz", "flow", "j{name: x, model: {family: llama, layers: 2, hidden: 64, heads: 4, ffn: 128, vocab: 256}, "
          "data: {train: [{path: /t}], packing: true}, train: {epochs: 3, sequence: 16k}, parallel: {tensor: 2, "
          "pipeline: 2}, memory: {device: 2GiB, place: {optimizer: {device: 0.4, host: 0.6}}}}")


def encoded(message, file, text):
    run = subprocess.run(["protoc", "-I.", "-I/usr/include", f"--encode=strata.v1.{message}", f"proto/strata/v1/{file}"],
                         input=text.encode(), capture_output=True, check=True)
    return run.stdout


SPEC = """spec { name: "x" model { family: FAMILY_LLAMA layers: 2 hidden: 64 heads: 4 ffn: 128 vocab: 256 }
  data { train { path: "/t" } } train { steps: 5 sequence: 32 } parallel { data: 2 shard: SHARD_ZERO1 } }"""


def rpcs():
    """The number is the message's place among those of all methods, as rpc_fuzz.cc goes through them."""
    for number, name, message, file, text in (
            (0, "create", "CreateJobRequest", "jobs.proto", "job { name: 'jobs/x' " + SPEC + " } request_id: 'r'"),
            (4, "list", "ListJobsRequest", "jobs.proto",
             "filter: 'state = \"RUNNING\" AND NOT priority > 3' order_by: 'create_time desc, name' page_size: 10"),
            (6, "update", "UpdateJobRequest", "jobs.proto",
             "job { name: 'jobs/x' spec { resources { priority: 3 } } } update_mask { paths: 'spec.resources.priority' }"),
            (48, "apply", "ApplyPolicyRequest", "cluster.proto",
             "policy { projects { name: 'nlp' description: 'd' } queues { name: 'urgent' priority: 10 } }"),
            (62, "audit", "ListAuditRecordsRequest", "access.proto", "filter: 'identity = \"a\" OR time > 5'")):
        write("rpc_fuzz", name, bytes([number]) + encoded(message, file, text))


def frames():
    request = encoded("StandaloneRequest", "standalone.proto", "job { " + SPEC[7:-2] + " } ranks: 2")
    frame = struct.pack("<I", len(request)) + request
    write("frames_fuzz", "frames", b"f\x07" + frame * 3)
    parts = [encoded("AgentMessage", "agent.proto",
                     f"part {{ message: 1 index: {i} count: 2 data: 'abc' }}") for i in range(2)]
    write("frames_fuzz", "parts", b"p\0" + b"".join(bytes([len(p)]) + p for p in parts))
    write("frames_fuzz", "fragments", b"g\0" + bytes([0, 1, 2, 1, 1, 2, 0, 2, 2, 7, 1, 1]))


def state():
    write("state_fuzz", "step", 's{"step": 3, "loss": 2.5, "tokens": 100, "seconds": 0.1, "epoch": 2}')
    manifest = next(pathlib.Path("checkpoint/goldens").rglob("manifest.json")).read_text()
    write("state_fuzz", "manifest", "m" + manifest)
    entry = {"entry": "w[0]", "name": "w", "state": "param", "shape": [4, 3], "dtype": "F32", "begin": 0, "end": 12,
             "digest": "00"}
    write("state_fuzz", "fragment", "f" + json.dumps({
        "file": "a.safetensors", "size_bytes": 10, "digest": "00", "header_digest": "00", "entries": [entry]}))
    write("state_fuzz", "profile", "pdevice: \"cpu\"\n")


if __name__ == "__main__":
    for make in (safetensors, configs, token_files, tokenizers, records, chat_templates, yaml_files, rpcs, frames, state):
        make()
