#!/usr/bin/env python3
"""Adapters against PEFT: what adapters_golden_test.cc compares with.

For some of the models of families_parity.py (their weights, tokens and training are those of the files it wrote) LoRA
of rank 3 on all linear layers of the blocks: logits, gradients, losses and norms of ten AdamW steps. And QLoRA: the
same with the linear layers' weights replaced by what bitsandbytes makes of them in NF4 with double quantisation or
without, or by what rows of 8 bits with a scale each can hold.

  adapter_parity.py tests/parity/goldens/adapters

Needs torch, transformers, peft and bitsandbytes; tests read only what is stored.
"""

import argparse
import json
import os

import bitsandbytes.functional as bnb
import numpy
import torch
import transformers
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file

import families_parity as families

RANK, ALPHA = 3, 4
SEED = 1
NAMES = ("llama", "gpt2", "qwen3")


def base_of(name):
    kind, options = families.CONFIGURATIONS[name]
    config = getattr(transformers, kind)(**options)
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().train()
    with torch.no_grad():
        for n, w in model.named_parameters():
            scale, offset = families.scale_of(kind, n, w.shape)
            values = families.uniform(SEED, n, w.numel()) * scale + offset
            w.copy_(torch.from_numpy(values.astype(numpy.float32)).view(w.shape))
    return model, config


def through_nf4(weight, double):
    codes, state = bnb.quantize_4bit(weight.contiguous(), blocksize=64, compress_statistics=double, quant_type="nf4")
    return bnb.dequantize_4bit(codes, state).view(weight.shape)


def through_int8(weight):
    """Of [out, in]."""
    scales = weight.abs().amax(1, keepdim=True) / 127
    return torch.round(weight / scales) * scales


def quantise(model, quantised):
    """Weights of the blocks' linear layers become numbers that the type can hold."""
    for name, module in model.named_modules():
        if "lm_head" in name:
            continue
        if isinstance(module, torch.nn.Linear):
            weight = module.weight.data
            module.weight.data = through_int8(weight) if quantised == "int8" else through_nf4(weight, quantised == "nf4")
        elif isinstance(module, transformers.pytorch_utils.Conv1D) and quantised == "int8":
            module.weight.data = through_int8(module.weight.data.T).T.contiguous()


def adapted(model):
    peft = get_peft_model(model, LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules="all-linear",
                                            task_type="CAUSAL_LM"))
    adapters = {}
    for n, w in peft.named_parameters():
        if "lora_" not in n:
            continue
        name = n.removeprefix("base_model.model.").replace(".default", "")
        values = families.uniform(SEED, name, w.numel()) * 0.4
        w.data = torch.from_numpy(values.astype(numpy.float32)).view(w.shape)
        adapters[name] = w
    return peft, adapters


def compute(name, quantised):
    model, config = base_of(name)
    if quantised:
        quantise(model, quantised)
    peft, adapters = adapted(model)
    count, vocab = families.STEPS * families.BATCH * families.SEQUENCE, config.vocab_size
    shape = (families.STEPS, families.BATCH, families.SEQUENCE)
    made = {}
    for what in ("tokens", "targets"):
        numbers = (families.uniform(SEED, what, count) + 1) / 2 * vocab
        made[what] = torch.from_numpy(numbers.astype(numpy.int32))
    ignored = families.uniform(SEED, "ignored", count) < 2 * families.IGNORED - 1
    made["targets"][torch.from_numpy(ignored)] = -1
    tokens, targets = made["tokens"].view(shape), made["targets"].view(shape)
    stored = {"adapters/" + n: w.detach().clone() for n, w in adapters.items()}
    logits = peft(input_ids=tokens[0].long(), use_cache=False).logits
    families.loss_of(logits, targets[0]).backward()
    stored["logits"] = logits.detach()
    for n, w in adapters.items():
        stored["gradients/" + n] = w.grad.clone()
    peft.zero_grad()
    # The trainer of families_parity takes all parameters of a model: those that train.
    trained = torch.nn.Module()
    trained.forward = lambda x, use_cache: peft(input_ids=x, use_cache=use_cache)
    trained.list = torch.nn.ParameterList(adapters.values())
    steps = list(families.train(trained, tokens, targets))
    stored["losses"] = torch.tensor([s[0] for s in steps], dtype=torch.float64)
    stored["norms"] = torch.tensor([s[1] for s in steps], dtype=torch.float64)
    print(name, quantised or "lora", [round(s[0], 4) for s in steps])
    return {n: t.contiguous() for n, t in stored.items()}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("directory")
    directory = arguments.parse_args().directory
    os.makedirs(directory, exist_ok=True)
    metadata = {"training": json.dumps(families.TRAINING), "rank": str(RANK), "alpha": str(ALPHA)}
    for name in NAMES:
        save_file(compute(name, ""), os.path.join(directory, name + ".safetensors"), metadata=metadata)
    # Of GPT-2 bitsandbytes quantises nothing: its layers are no Linear.
    for name, quantised in (("llama", "nf4"), ("qwen3", "nf4"), ("llama", "nf4f32"), ("llama", "int8"), ("gpt2", "int8")):
        path = os.path.join(directory, f"{name}_{quantised}.safetensors")
        save_file(compute(name, quantised), path, metadata=metadata)


if __name__ == "__main__":
    main()
