#!/usr/bin/env python3
"""Writes what bitsandbytes makes of two tensors in NF4 with double quantisation and without, for nf4_test.cc.

Needs torch and bitsandbytes; the test reads only what is stored. The weights are stored too: half precision is
enough, and they are widened exactly.
"""

import pathlib
import sys

import bitsandbytes.functional as bnb
import torch
from safetensors.torch import save_file


def main() -> None:
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path("tests/parity/goldens/nf4.safetensors")
    torch.manual_seed(5)
    tensors: dict[str, torch.Tensor] = {}
    # Two units, the second partly filled; and less than one block.
    for name, shape in {"large": (150, 128), "small": (3, 10)}.items():
        weights = (torch.randn(shape) * (1 + torch.arange(shape[0])[:, None] / 50) * 0.02).half()
        codes, state = bnb.quantize_4bit(weights.float(), blocksize=64, compress_statistics=True, quant_type="nf4")
        tensors[f"{name}.weights"] = weights
        tensors[f"{name}.codes"] = codes.flatten()
        tensors[f"{name}.absmax"] = state.absmax
        tensors[f"{name}.nested_absmax"] = state.state2.absmax
        tensors[f"{name}.offset"] = state.offset.reshape(1)
        tensors["scale_numbers"] = state.state2.code
        tensors[f"{name}.dequantised"] = bnb.dequantize_4bit(codes, state)
        codes, state = bnb.quantize_4bit(weights.float(), blocksize=64, compress_statistics=False, quant_type="nf4")
        tensors[f"{name}.codes_f32"] = codes.flatten()
        tensors[f"{name}.absmax_f32"] = state.absmax
        tensors[f"{name}.dequantised_f32"] = bnb.dequantize_4bit(codes, state)
        tensors["numbers"] = state.code
    save_file({key: value.contiguous() for key, value in tensors.items()}, path)


if __name__ == "__main__":
    main()
