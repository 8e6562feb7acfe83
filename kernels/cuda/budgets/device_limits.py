"""What a multiprocessor holds at once, and what devices move and compute at most, as published."""

import math
from dataclasses import dataclass

# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": warps, blocks and bytes of shared memory of
# a multiprocessor. Registers are 65,536 for all.
MULTIPROCESSORS = {
    80: (64, 32, 164 << 10),
    86: (48, 16, 100 << 10),
    89: (48, 24, 100 << 10),
    90: (64, 32, 228 << 10),
    100: (64, 32, 228 << 10),
}
REGISTERS_OF_QUARTER, REGISTER_UNIT, SHARED_UNIT, RESERVED_SHARED = 16384, 256, 128, 1024


def resident_warps(architecture: int, threads: int, registers: int, shared_bytes: int) -> int:
    """Of so many threads a block, by what of registers, shared memory, warps and blocks ends first."""
    most_warps, most_blocks, shared_of_all = MULTIPROCESSORS[architecture]
    warps = math.ceil(threads / 32)
    of_warp = math.ceil(max(registers, 1) * 32 / REGISTER_UNIT) * REGISTER_UNIT
    by_registers = REGISTERS_OF_QUARTER // of_warp * 4  # a warp's are in one quarter
    of_block = math.ceil((shared_bytes + RESERVED_SHARED) / SHARED_UNIT) * SHARED_UNIT
    blocks = min(most_warps // warps, by_registers // warps, most_blocks, shared_of_all // of_block)
    return blocks * warps


@dataclass
class Device:
    """NVIDIA's data sheets, SXM, dense: bytes and FLOP per second."""
    name: str
    architecture: int
    multiprocessors: int
    bytes: float
    flops: dict  # by unit


DEVICES = [
    Device("H100", 90, 132, 3.35e12, {"f32": 67e12, "f64": 34e12, "tensor": 989e12}),
    Device("B200", 100, 148, 8.0e12, {"f32": 75e12, "f64": 37e12, "tensor": 2250e12}),
]


def roofline(device: Device, moved: float, flops: float, unit: str) -> tuple:
    """The least microseconds, and what binds."""
    memory, compute = moved / device.bytes * 1e6, flops / device.flops[unit] * 1e6
    return max(memory, compute), "memory" if memory >= compute else unit
