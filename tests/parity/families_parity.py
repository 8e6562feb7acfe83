"""Expected values of tiny models of every family, computed by transformers and PyTorch.

For each configuration: the logits, the loss and every gradient of a first batch in float32, the losses and gradient
norms (before clipping) of ten AdamW steps, and the logits, loss and gradient norm under bfloat16 autocast. Weights
and tokens are functions of the seed, of the tensor's name and of an element's index that families_test.cc computes
too, so only what they are scaled by is stored.

Not run in tests: the stored files are. To make them again, or others:
    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch transformers safetensors
    /tmp/venv/bin/python tests/parity/families_parity.py tests/parity/goldens/families [--seed N] [--only NAME]
and to compare with others: bazel test //tests/parity:families_test --test_env=STRATA_PARITY_GOLDENS=/tmp/others
"""

import argparse
import json
import math
import os

import numpy
import torch
import transformers
from safetensors.torch import save_file

STEPS = 10
TRAINING = {
    "steps": STEPS, "learning_rate": 3e-3, "warmup_steps": 3, "final_fraction": 0.1, "beta1": 0.9, "beta2": 0.95,
    "epsilon": 1e-8, "weight_decay": 0.1, "gradient_clip": 0.5,
}
BATCH, SEQUENCE, IGNORED = 2, 13, 0.2


def sizes(hidden, heads, kv_heads, ffn, vocab, layers=2, **more):
    return {"hidden_size": hidden, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
            "intermediate_size": ffn, "vocab_size": vocab, "num_hidden_layers": layers, "max_position_embeddings": 32,
            "pad_token_id": None, "bos_token_id": None, "eos_token_id": None, **more}


def pairs(count, first, step):
    return [first + step * i for i in range(count)]


CONFIGURATIONS = {
    "llama": ("LlamaConfig", sizes(24, 3, 3, 37, 61, rope_parameters={"rope_type": "default", "rope_theta": 500.0})),
    "llama_scaled": ("LlamaConfig", sizes(
        33, 3, 1, 29, 53, head_dim=40, tie_word_embeddings=True, attention_bias=True, mlp_bias=True,
        rope_parameters={"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 16})),
    "llama_yarn": ("LlamaConfig", sizes(
        24, 2, 1, 30, 50, head_dim=16, rope_parameters={
            "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16})),
    "llama_linear": ("LlamaConfig", sizes(
        16, 2, 2, 30, 50, rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0})),
    "mistral": ("MistralConfig", sizes(28, 4, 2, 41, 59, head_dim=10, sliding_window=5)),
    "qwen2": ("Qwen2Config", sizes(24, 3, 1, 40, 57, tie_word_embeddings=True)),
    "qwen2_windows": ("Qwen2Config", sizes(
        24, 4, 2, 40, 57, layers=3, use_sliding_window=True, sliding_window=4, max_window_layers=1)),
    "qwen3": ("Qwen3Config", sizes(21, 3, 1, 33, 51, head_dim=16)),
    "gemma2": ("Gemma2Config", sizes(
        24, 4, 2, 35, 63, head_dim=10, sliding_window=4, query_pre_attn_scalar=12, attn_logit_softcapping=5.0,
        final_logit_softcapping=3.0)),
    "gemma3": ("Gemma3TextConfig", sizes(
        24, 3, 1, 31, 55, layers=3, head_dim=80, sliding_window=4, query_pre_attn_scalar=64,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"],
        rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
                         "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0}})),
    "gpt2": ("GPT2Config", {
        "n_embd": 24, "n_head": 3, "n_layer": 2, "n_positions": 32, "vocab_size": 67, "resid_pdrop": 0.0,
        "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": None, "eos_token_id": None}),
    "phi3": ("Phi3Config", sizes(36, 3, 1, 34, 60, sliding_window=7, rope_parameters={
        "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5})),
    "phi3_long": ("Phi3Config", sizes(
        24, 2, 1, 34, 60, original_max_position_embeddings=8, rope_parameters={
            "rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 8,
            "short_factor": pairs(6, 1.0, 0.1), "long_factor": pairs(6, 1.5, 1.0)})),
    "phi3_short": ("Phi3Config", sizes(
        24, 2, 1, 34, 60, original_max_position_embeddings=16, rope_parameters={
            "rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 16,
            "short_factor": pairs(6, 1.0, 0.1), "long_factor": pairs(6, 1.5, 1.0)})),
}


# --- What both sides compute ------------------------------------------------------------------------------------------

MASK = (1 << 64) - 1


def key_of(seed, name):
    """FNV-1a of the name, begun with the seed."""
    key = (0xcbf29ce484222325 ^ seed) & MASK
    for byte in name.encode():
        key = ((key ^ byte) * 0x100000001b3) & MASK
    return key


def uniform(seed, name, count):
    """Numbers in [-1, 1): the upper 24 bits of SplitMix64 at key + index."""
    with numpy.errstate(over="ignore"):
        x = numpy.arange(1, count + 1, dtype=numpy.uint64) * numpy.uint64(0x9e3779b97f4a7c15)
        x += numpy.uint64(key_of(seed, name))
        x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xbf58476d1ce4e5b9)
        x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94d049bb133111eb)
        x ^= x >> numpy.uint64(31)
    return (x >> numpy.uint64(40)).astype(numpy.float64) * 2.0**-23 - 1.0


def scale_of(family, name, shape):
    """Larger than a training's initial values, so that every term matters; norms away from what does nothing."""
    if len(shape) == 1:
        is_norm = "norm" in name or "ln_" in name
        unit = 0.0 if family.startswith("Gemma") or not is_norm or name.endswith("bias") else 1.0
        return 0.3, unit
    if "embed" in name or "wte" in name or "wpe" in name:
        return 0.9, 0.0
    inputs = shape[0] if "c_" in name else shape[1]
    gain = 2.0 if any(part in name for part in ("q_proj", "k_proj")) else 1.3
    return gain * math.sqrt(3.0 / inputs), 0.0


# --- The model's options in a job file's words ------------------------------------------------------------------------

def rope_spec(parameters, head_size):
    spec = {"theta": parameters["rope_theta"]}
    rotary = parameters.get("partial_rotary_factor", 1.0)
    if rotary != 1.0:
        spec["partial_rotary_factor"] = rotary
    if parameters.get("rope_type", "default") != "default":
        names = ("rope_type", "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings",
                 "attention_factor", "beta_fast", "beta_slow", "short_factor", "long_factor")
        spec["scaling"] = {name: parameters[name] for name in names if parameters.get(name) is not None}
    return spec


ACTIVATIONS = {"silu": "SILU", "gelu_pytorch_tanh": "GELU_TANH", "gelu_new": "GELU_TANH", "gelu": "GELU"}


def model_spec(kind, c):
    family = {"LlamaConfig": "LLAMA", "GPT2Config": "GPT2", "MistralConfig": "MISTRAL", "Qwen2Config": "QWEN2",
              "Qwen3Config": "QWEN3", "Gemma2Config": "GEMMA2", "Gemma3TextConfig": "GEMMA3",
              "Phi3Config": "PHI3"}[kind]
    spec = {"family": "FAMILY_" + family, "layers": c.num_hidden_layers, "hidden": c.hidden_size,
            "heads": c.num_attention_heads, "vocab": c.vocab_size, "context": c.max_position_embeddings,
            "tied_embeddings": c.tie_word_embeddings}
    if family == "GPT2":
        spec.update(ffn=c.n_inner or 4 * c.n_embd, norm_epsilon=c.layer_norm_epsilon,
                    activation="ACTIVATION_" + ACTIVATIONS[c.activation_function])
        return spec
    head_size = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    activation = getattr(c, "hidden_act", None) or c.hidden_activation
    spec.update(kv_heads=c.num_key_value_heads, head_size=head_size, ffn=c.intermediate_size,
                norm_epsilon=c.rms_norm_eps, activation="ACTIVATION_" + ACTIVATIONS[activation])
    if family == "GEMMA3":
        spec["rope"] = rope_spec(c.rope_parameters["full_attention"], head_size)
        spec["rope"]["local_theta"] = c.rope_parameters["sliding_attention"]["rope_theta"]
    else:
        spec["rope"] = rope_spec(c.rope_parameters, head_size)
    if family in ("LLAMA", "QWEN3", "GEMMA2", "GEMMA3"):
        spec["attention_bias"] = spec["output_bias"] = c.attention_bias
    if family == "LLAMA":
        spec["feed_forward_bias"] = c.mlp_bias
    if family in ("GEMMA2", "GEMMA3"):
        spec.update(query_scale=c.query_pre_attn_scalar, attention_softcap=c.attn_logit_softcapping or 0,
                    logit_softcap=c.final_logit_softcapping or 0)
    if getattr(c, "sliding_window", None):
        spec["sliding_window"] = c.sliding_window
        layers = getattr(c, "layer_types", None) or []
        spec["full_attention_layers"] = [i for i, layer in enumerate(layers) if layer == "full_attention"]
    return spec


# --- Training ---------------------------------------------------------------------------------------------------------

def loss_of(logits, targets):
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten().long(), ignore_index=-1)


def learning_rate(step):
    t = TRAINING
    if step <= t["warmup_steps"]:
        return t["learning_rate"] * step / t["warmup_steps"]
    progress = (step - t["warmup_steps"]) / (t["steps"] - t["warmup_steps"])
    above = 0.5 * (1 + math.cos(math.pi * progress))
    return t["learning_rate"] * (t["final_fraction"] + (1 - t["final_fraction"]) * above)


def train(model, tokens, targets):
    t = TRAINING
    settings = {"lr": 0.0, "betas": (t["beta1"], t["beta2"]), "eps": t["epsilon"]}
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW([
        {"params": [w for w in parameters if w.dim() >= 2], "weight_decay": t["weight_decay"], **settings},
        {"params": [w for w in parameters if w.dim() < 2], "weight_decay": 0.0, **settings},
    ])
    for step in range(1, STEPS + 1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        optimizer.zero_grad()
        loss = loss_of(model(tokens[step - 1].long(), use_cache=False).logits, targets[step - 1])
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, t["gradient_clip"])
        optimizer.step()
        yield loss.item(), norm.item()


def make(name, directory, seed):
    kind, options = CONFIGURATIONS[name]
    config = getattr(transformers, kind)(**options)
    config._attn_implementation = "eager"  # the one that has softcaps
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().train()
    scales = {}
    with torch.no_grad():
        for n, w in model.named_parameters():
            scale, offset = scales[n] = scale_of(kind, n, w.shape)
            values = uniform(seed, n, w.numel()) * scale + offset
            w.copy_(torch.from_numpy(values.astype(numpy.float32)).view(w.shape))
    count = STEPS * BATCH * SEQUENCE
    vocab = config.vocab_size
    tokens = torch.from_numpy(((uniform(seed, "tokens", count) + 1) / 2 * vocab).astype(numpy.int32))
    targets = torch.from_numpy(((uniform(seed, "targets", count) + 1) / 2 * vocab).astype(numpy.int32))
    targets[torch.from_numpy(uniform(seed, "ignored", count) < 2 * IGNORED - 1)] = -1
    tokens, targets = tokens.view(STEPS, BATCH, SEQUENCE), targets.view(STEPS, BATCH, SEQUENCE)

    stored = {"tokens": tokens, "targets": targets}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(tokens[0].long(), use_cache=False).logits
    stored["bf16_logits"] = logits.detach().float()
    loss = loss_of(logits, targets[0])
    loss.backward()
    bf16_loss, bf16_norm = loss.item(), torch.nn.utils.clip_grad_norm_(model.parameters(), math.inf).item()
    model.zero_grad()
    logits = model(tokens[0].long(), use_cache=False).logits
    loss_of(logits, targets[0]).backward()
    stored["logits"] = logits.detach()
    for n, w in model.named_parameters():
        stored["gradients/" + n] = w.grad.clone()
    model.zero_grad()
    steps = list(train(model, tokens, targets))
    stored["losses"] = torch.tensor([s[0] for s in steps], dtype=torch.float64)
    stored["norms"] = torch.tensor([s[1] for s in steps], dtype=torch.float64)
    metadata = {"model": json.dumps(model_spec(kind, config)), "training": json.dumps(TRAINING),
                "scales": json.dumps(scales), "seed": str(seed), "bf16_loss": repr(bf16_loss), "bf16_norm": repr(bf16_norm),
                "versions": f"torch {torch.__version__}, transformers {transformers.__version__}"}
    save_file({n: s.contiguous() for n, s in stored.items()}, os.path.join(directory, name + ".safetensors"),
              metadata=metadata)
    print(name, "parameters", sum(w.numel() for w in model.parameters()), "losses", [round(s[0], 4) for s in steps],
          "norms", [round(s[1], 3) for s in steps], "bf16", round(bf16_loss, 4), round(bf16_norm, 4))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("directory")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--only", choices=CONFIGURATIONS, action="append")
    parsed = arguments.parse_args()
    os.makedirs(parsed.directory, exist_ok=True)
    for configuration in parsed.only or CONFIGURATIONS:
        make(configuration, parsed.directory, parsed.seed)
