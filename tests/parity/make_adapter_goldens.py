#!/usr/bin/env python3
"""Writes the PEFT directories that checkpoint/peft/peft_test.cc reads, with PEFT itself.

Needs torch, transformers and peft; tests read only what is stored.
Element i of the n-th tensor in the order of names is ((i * 7 + n * 5) % 31 - 15) / 64.
"""

import json
import pathlib
import sys
import tempfile

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

# Of where the directory was made, or of versions of other things.
VOLATILE = ("base_model_name_or_path", "revision")


def fill(model: torch.nn.Module) -> None:
    named = sorted((name, p) for name, p in model.named_parameters() if "lora_" in name)
    for n, (_, parameter) in enumerate(named):
        i = torch.arange(parameter.numel())
        parameter.data = (((i * 7 + n * 5) % 31 - 15) / 64).reshape(parameter.shape).float()


def write(name: str, model: torch.nn.Module, dtype: torch.dtype, targets: object, folder: pathlib.Path) -> None:
    config = LoraConfig(r=2, lora_alpha=3, target_modules=targets, task_type="CAUSAL_LM")
    peft = get_peft_model(model, config)
    fill(peft)
    for parameter_name, parameter in peft.named_parameters():
        if "lora_" in parameter_name:
            parameter.data = parameter.data.to(dtype)
    with tempfile.TemporaryDirectory() as made:
        peft.save_pretrained(made)
        to = folder / name
        to.mkdir(parents=True, exist_ok=True)
        text = json.loads(pathlib.Path(made, "adapter_config.json").read_text())
        text["target_modules"] = sorted(text["target_modules"])
        for key in VOLATILE:
            text[key] = None
        (to / "adapter_config.json").write_text(json.dumps(text, indent=2, sort_keys=True) + "\n")
        weights = pathlib.Path(made, "adapter_model.safetensors").read_bytes()
        (to / "adapter_model.safetensors").write_bytes(weights)
        print(name, {key: list(value.shape) for key, value in load_file(to / "adapter_model.safetensors").items()})


def main() -> None:
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path("checkpoint/peft/goldens")
    torch.manual_seed(0)
    gpt2 = GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=20, n_positions=16, bos_token_id=0, eos_token_id=0)
    write("gpt2", GPT2LMHeadModel(gpt2), torch.float32, "all-linear", folder)
    llama = LlamaConfig(num_hidden_layers=2, hidden_size=8, num_attention_heads=2, num_key_value_heads=1,
                        intermediate_size=12, vocab_size=20, bos_token_id=0, eos_token_id=0)
    write("llama", LlamaForCausalLM(llama), torch.bfloat16, ["q_proj", "v_proj", "down_proj"], folder)


if __name__ == "__main__":
    main()
