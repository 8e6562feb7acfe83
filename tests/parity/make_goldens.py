"""Expected values of two tiny Llama-style models, computed by PyTorch in float64.

An independent implementation in plain PyTorch with automatic differentiation; stores, for each configuration,
initial weights, ten batches of tokens and targets, and for the first batch logits, loss and every gradient, then
losses, gradient norms (before clipping) and final weights of ten AdamW steps. Weights begin as float32 numbers and
all arithmetic is float64; results are stored as float32 (losses and norms as float64).

Not run in tests: the stored files are. To make them again:
    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch numpy safetensors
    /tmp/venv/bin/python tests/parity/make_goldens.py tests/parity/goldens
"""

import json
import math
import sys

import torch
from safetensors.torch import save_file

STEPS = 10
TRAINING = {
    "steps": STEPS, "learning_rate": 3e-3, "warmup_steps": 3, "final_fraction": 0.1, "beta1": 0.9, "beta2": 0.95,
    "epsilon": 1e-8, "weight_decay": 0.1, "gradient_clip": 0.5,
}
CONFIGURATIONS = {
    "untied": {
        "layers": 2, "hidden": 24, "heads": 3, "kv_heads": 3, "head_size": 8, "ffn": 37, "vocab": 261, "tied": 0,
        "batch": 3, "sequence": 19, "ignored": 0.0, "rope_theta": 10000.0, "norm_epsilon": 1e-5,
    },
    "grouped_tied": {
        "layers": 3, "hidden": 40, "heads": 4, "kv_heads": 2, "head_size": 10, "ffn": 52, "vocab": 256, "tied": 1,
        "batch": 2, "sequence": 33, "ignored": 0.2, "rope_theta": 500.0, "norm_epsilon": 1e-5,
    },
}


def make_weights(c, generator):
    """Larger than a training's initial values, so that every term matters; norms away from 1."""
    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    width, kv_width = c["heads"] * c["head_size"], c["kv_heads"] * c["head_size"]
    scale = 1.0 / math.sqrt(c["hidden"])
    weights = {"model.embed_tokens.weight": 0.5 * normal(c["vocab"], c["hidden"])}
    for i in range(c["layers"]):
        p = f"model.layers.{i}."
        weights[p + "input_layernorm.weight"] = 1 + 0.2 * normal(c["hidden"])
        weights[p + "self_attn.q_proj.weight"] = 2 * scale * normal(width, c["hidden"])
        weights[p + "self_attn.k_proj.weight"] = 2 * scale * normal(kv_width, c["hidden"])
        weights[p + "self_attn.v_proj.weight"] = scale * normal(kv_width, c["hidden"])
        weights[p + "self_attn.o_proj.weight"] = scale * normal(c["hidden"], width)
        weights[p + "post_attention_layernorm.weight"] = 1 + 0.2 * normal(c["hidden"])
        weights[p + "mlp.gate_proj.weight"] = scale * normal(c["ffn"], c["hidden"])
        weights[p + "mlp.up_proj.weight"] = scale * normal(c["ffn"], c["hidden"])
        weights[p + "mlp.down_proj.weight"] = scale * normal(c["hidden"], c["ffn"])
    weights["model.norm.weight"] = 1 + 0.2 * normal(c["hidden"])
    if not c["tied"]:
        weights["lm_head.weight"] = scale * normal(c["vocab"], c["hidden"])
    return {name: weight.float() for name, weight in weights.items()}


def rms_norm(x, weight, epsilon):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * weight


def rotate(x, theta):
    """x[B, heads, T, D]: element i turns with element i + D/2 (Hugging Face's Llama)."""
    size, length = x.shape[-1], x.shape[-2]
    frequency = theta ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency[None, :]
    cosine, sine = torch.cos(angle), torch.sin(angle)
    first, second = x[..., : size // 2], x[..., size // 2:]
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


def attention(c, p, w, x):
    batch, length, _ = x.shape

    def heads(name, count):
        y = x @ w[p + f"self_attn.{name}.weight"].T
        return y.view(batch, length, count, c["head_size"]).transpose(1, 2)

    q = rotate(heads("q_proj", c["heads"]), c["rope_theta"])
    k = rotate(heads("k_proj", c["kv_heads"]), c["rope_theta"])
    v = heads("v_proj", c["kv_heads"])
    group = c["heads"] // c["kv_heads"]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    scores = q @ k.transpose(-1, -2) / math.sqrt(c["head_size"])
    future = torch.triu(torch.ones(length, length, dtype=torch.bool), diagonal=1)
    out = torch.softmax(scores.masked_fill(future, -math.inf), dim=-1) @ v
    return out.transpose(1, 2).reshape(batch, length, -1) @ w[p + "self_attn.o_proj.weight"].T


def feed_forward(p, w, x):
    gate, up = x @ w[p + "mlp.gate_proj.weight"].T, x @ w[p + "mlp.up_proj.weight"].T
    return (torch.nn.functional.silu(gate) * up) @ w[p + "mlp.down_proj.weight"].T


def logits_of(c, w, tokens):
    x = w["model.embed_tokens.weight"][tokens.long()]
    for i in range(c["layers"]):
        p = f"model.layers.{i}."
        x = x + attention(c, p, w, rms_norm(x, w[p + "input_layernorm.weight"], c["norm_epsilon"]))
        x = x + feed_forward(p, w, rms_norm(x, w[p + "post_attention_layernorm.weight"], c["norm_epsilon"]))
    x = rms_norm(x, w["model.norm.weight"], c["norm_epsilon"])
    return x @ w["model.embed_tokens.weight" if c["tied"] else "lm_head.weight"].T


def loss_of(logits, targets):
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten().long(), ignore_index=-1)


def learning_rate(step):
    t = TRAINING
    if step <= t["warmup_steps"]:
        return t["learning_rate"] * step / t["warmup_steps"]
    progress = (step - t["warmup_steps"]) / (t["steps"] - t["warmup_steps"])
    above = 0.5 * (1 + math.cos(math.pi * progress))
    return t["learning_rate"] * (t["final_fraction"] + (1 - t["final_fraction"]) * above)


def train(c, weights, tokens, targets):
    """Ten steps; yields (loss, norm before clipping) of each and leaves the weights as they end."""
    t = TRAINING
    settings = {"lr": 0.0, "betas": (t["beta1"], t["beta2"]), "eps": t["epsilon"]}
    optimizer = torch.optim.AdamW([
        {"params": [w for w in weights.values() if w.dim() >= 2], "weight_decay": t["weight_decay"], **settings},
        {"params": [w for w in weights.values() if w.dim() < 2], "weight_decay": 0.0, **settings},
    ])
    for step in range(1, STEPS + 1):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        optimizer.zero_grad()
        loss = loss_of(logits_of(c, weights, tokens[step - 1]), targets[step - 1])
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(weights.values(), t["gradient_clip"])
        optimizer.step()
        yield loss.item(), norm.item()


def make(name, directory):
    c = CONFIGURATIONS[name]
    generator = torch.Generator().manual_seed(len(name))
    initial = make_weights(c, generator)
    shape = (STEPS, c["batch"], c["sequence"])
    tokens = torch.randint(0, c["vocab"], shape, generator=generator, dtype=torch.int32)
    targets = torch.randint(0, c["vocab"], shape, generator=generator, dtype=torch.int32)
    targets[torch.rand(shape, generator=generator) < c["ignored"]] = -1

    weights = {n: w.double().requires_grad_() for n, w in initial.items()}
    logits = logits_of(c, weights, tokens[0])
    loss_of(logits, targets[0]).backward()
    stored = {"tokens": tokens, "targets": targets, "logits": logits.detach().float()}
    for n, w in weights.items():
        stored["weights/" + n] = initial[n]
        stored["gradients/" + n] = w.grad.float()
    steps = list(train(c, weights, tokens, targets))
    stored["losses"] = torch.tensor([s[0] for s in steps], dtype=torch.float64)
    stored["norms"] = torch.tensor([s[1] for s in steps], dtype=torch.float64)
    for n, w in weights.items():
        stored["final/" + n] = w.detach().float()
    save_file({n: s.contiguous() for n, s in stored.items()}, f"{directory}/{name}.safetensors",
              metadata={"configuration": json.dumps({**c, **TRAINING}), "torch": torch.__version__})
    print(name, "parameters", sum(w.numel() for w in weights.values()), "losses", [round(s[0], 4) for s in steps],
          "norms", [round(s[1], 3) for s in steps])


if __name__ == "__main__":
    for configuration in CONFIGURATIONS:
        make(configuration, sys.argv[1])
