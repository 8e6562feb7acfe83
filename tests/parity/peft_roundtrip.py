#!/usr/bin/env python3
"""Adapters out and in again: what Strata trained PEFT loads with the same logits, and the reverse.

  peft_roundtrip.py STRATA DIR TEXT

STRATA: the program, with its worker and trainer beside it. DIR: a Hugging Face directory of a small model that reads
bytes. TEXT: a file to train on. Needs torch, transformers, peft and safetensors.
"""

import pathlib
import subprocess
import sys
import tempfile

import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

SEQUENCE = 16


def run(*arguments) -> None:
    subprocess.run([str(a) for a in arguments], check=True, stdin=subprocess.DEVNULL)


def dumped(strata, source, text, folder) -> torch.Tensor:
    run(strata, "eval", "--from", source, "--data", text, "--sequence", SEQUENCE, "--dump-logits", folder / "l.safetensors")
    return load_file(folder / "l.safetensors")["logits"]


def compare(what, found, expected) -> bool:
    error = ((found - expected).abs().max() / expected.abs().max()).item()
    print(f"{what}: {error:.2e} of the largest logit")
    return error < 1e-4


def main() -> int:
    strata, base, text = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3]).resolve()
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        job = folder / "job.yaml"
        job.write_text(f"""
model: {{from: {base}}}
data: {{train: [{{path: {text}}}]}}
train: {{steps: 4, sequence: {SEQUENCE}, global_batch: 4, micro_batch: 2, method: lora, lora: {{rank: 4, alpha: 8}},
        schedule: {{name: constant, warmup_steps: 1}}, optimizer: {{learning_rate: 0.02}}}}
""")
        run(strata, "run", job, "--dir", folder / "run")
        checkpoints = folder / "run" / "checkpoints"
        ours = dumped(strata, checkpoints, text, folder)
        run(strata, "export", checkpoints, "-o", folder / "adapter")
        run(strata, "export", checkpoints, "-o", folder / "merged", "--merge", "--dtype", "f32")
        windows = ours.shape[0]
        tokens = torch.tensor(list(text.read_bytes())[:windows * SEQUENCE]).view(windows, SEQUENCE)
        model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
        with torch.no_grad():
            good = compare("PEFT with our adapter", PeftModel.from_pretrained(model, folder / "adapter")(tokens).logits, ours)
            merged = AutoModelForCausalLM.from_pretrained(folder / "merged", dtype=torch.float32)
            good &= compare("transformers with the merged model", merged(tokens).logits, ours)
        # What PEFT writes, one step further with nothing learned.
        PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32),
                                  folder / "adapter").save_pretrained(folder / "theirs")
        job.write_text(job.read_text().replace(f"from: {base}", f"from: {base}, adapter: {folder}/theirs")
                       .replace("steps: 4", "steps: 1").replace("0.02", "0, weight_decay: 0"))
        run(strata, "run", job, "--dir", folder / "again")
        good &= compare("PEFT's adapter in Strata", dumped(strata, folder / "again" / "checkpoints", text, folder), ours)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
