"""PyTorch's side: torch_side.py SPEC, by the Python that has it. One JSON object on stdout.

SPEC {"what": "ceilings", "shapes": [[m, n, k]…]}: TFLOP/s of bf16 products of random numbers, bytes per second of a copy on the
device. {"what": "training", model, batch, sequence, mode, numbers, steps}: median seconds of training steps of a
model of that shape, with scaled-dot-product attention, fused AdamW, gradients clipped; `numbers` mixed: f32 parameters
and moments under autocast, or bf16: everything.
"""

import json
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


SPEC = json.loads(sys.argv[1])
DEVICE = SPEC.get("device", "cuda")  # cpu: to try this file where there is no GPU


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def seconds(run, repeats: int, least: float = 0.0) -> float:
    """Median of several, each at least so long."""
    run(), run(), wait()
    begin = time.perf_counter()
    run(), wait()
    count = max(1, int(least / max(time.perf_counter() - begin, 1e-6)))
    samples = []
    for _ in range(repeats):
        begin = time.perf_counter()
        for _ in range(count):
            run()
        wait()
        samples.append((time.perf_counter() - begin) / count)
    return statistics.median(samples)


def ceilings(spec: dict) -> dict:
    rates = {}
    for m, n, k in spec["shapes"]:
        a = torch.randn(m, k, device=DEVICE, dtype=torch.bfloat16)
        b = torch.randn(n, k, device=DEVICE, dtype=torch.bfloat16)
        rates[f"{m}x{n}x{k}"] = 2e-12 * m * n * k / seconds(lambda: a @ b.t(), 5, 0.02)
    x = torch.empty(1 << (30 if DEVICE == "cuda" else 20), dtype=torch.uint8, device=DEVICE)
    y = torch.empty_like(x)
    return {"tflops": rates, "copy_bytes_per_second": 2 * x.numel() / seconds(lambda: y.copy_(x), 5, 0.02)}


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


class Block(nn.Module):
    def __init__(self, m: dict):
        super().__init__()
        d, self.heads, self.kv = m["hidden"], m["heads"], m.get("kv_heads", m["heads"])
        self.size = m.get("head_size", d // self.heads)
        self.gpt2 = m["family"] == "gpt2"
        norm = nn.LayerNorm if self.gpt2 else nn.RMSNorm
        self.n1, self.n2 = norm(d), norm(d)
        self.qkv = nn.Linear(d, (self.heads + 2 * self.kv) * self.size, bias=m["family"] in ("gpt2", "qwen2"))
        self.o = nn.Linear(self.heads * self.size, d, bias=self.gpt2)
        self.up = nn.Linear(d, m["ffn"] * (1 if self.gpt2 else 2), bias=self.gpt2)
        self.down = nn.Linear(m["ffn"], d, bias=self.gpt2)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).split([self.heads * self.size, self.kv * self.size, self.kv * self.size], -1)
        q, k, v = (y.view(b, t, -1, self.size).transpose(1, 2) for y in (q, k, v))
        if not self.gpt2:
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.heads != self.kv)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, -1))
        h = self.up(self.n2(x))
        if self.gpt2:
            return x + self.down(F.gelu(h, approximate="tanh"))
        gate, up = h.chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    def __init__(self, m: dict, sequence: int):
        super().__init__()
        self.table = nn.Embedding(m["vocab"], m["hidden"])
        self.places = nn.Embedding(sequence, m["hidden"]) if m["family"] == "gpt2" else None
        self.blocks = nn.ModuleList(Block(m) for _ in range(m["layers"]))
        self.norm = (nn.LayerNorm if m["family"] == "gpt2" else nn.RMSNorm)(m["hidden"])
        self.head = None if m.get("tied_embeddings") else nn.Linear(m["hidden"], m["vocab"], bias=False)
        size = m.get("head_size", m["hidden"] // m["heads"])
        angles = torch.outer(torch.arange(sequence).float(), 1e4 ** (-torch.arange(0, size, 2).float() / size))
        self.cos, self.sin = (f(torch.cat((angles, angles), -1)) for f in (torch.cos, torch.sin))

    def forward(self, ids, targets):
        x = self.table(ids)
        if self.places is not None:
            x = x + self.places.weight
        cos, sin = self.cos.to(x.dtype), self.sin.to(x.dtype)
        for block in self.blocks:
            x = block(x, cos, sin)
        logits = F.linear(self.norm(x), self.table.weight if self.head is None else self.head.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def training(spec: dict) -> dict:
    torch.manual_seed(0)
    bf16, m, batch, sequence = spec["numbers"] == "bf16", spec["model"], spec["batch"], spec["sequence"]
    torch.set_default_dtype(torch.bfloat16 if bf16 else torch.float32)
    with torch.device(DEVICE):
        model = Model(m, sequence)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids = torch.randint(min(m["vocab"], 65536), (batch, sequence + 1), device=DEVICE)
    run = torch.compile(model) if spec["mode"] == "compiled" else model

    def step():
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=not bf16):
            loss = run(ids[:, :-1], ids[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    took = seconds(step, spec["steps"])
    return {"seconds": took, "peak_bytes": torch.cuda.max_memory_allocated() if DEVICE == "cuda" else 0}


def main():
    try:
        found = ceilings(SPEC) if SPEC["what"] == "ceilings" else training(SPEC)
    except RuntimeError as problem:
        found = {"error": " ".join(str(problem).split())[:200]}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
