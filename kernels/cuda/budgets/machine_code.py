"""What nvcc put into objects: the kernels' machine code, read from the cubins in their fat binaries.

Formats: the fat binary and .nv.info of CUDA 13 (there is no public description; the cubins' own tools, where they are
installed, tell the same), instructions of 128 bits of sm_70 and later.
"""

import pathlib
import re
import struct
import subprocess
from dataclasses import dataclass

FAT_BINARY, CUBIN = 0xBA55ED50, 2
# Attributes of .nv.info: of the module by symbol, of a kernel.
REGISTERS, FRAME_BYTES, MOST_THREADS = 0x2F, 0x11, 0x05
# Bits 0-11 of an instruction; bits 73-75 of an access tell its width, 74-76 of an asynchronous copy on sm_100 and later.
LOADS = (0x381, 0x981)           # LDG
STORES = (0x386, 0x986)          # STG
ASYNCHRONOUS = (0x3AE, 0xFAE)    # LDGSTS, cp.async: counted as a load
SIXTEEN_BYTES = 6
# Of shared memory the system has the first so many on sm_90 and later: then they are in the section's size.
SYSTEMS_SHARED_BYTES = 1024


@dataclass
class Kernel:
    source: str
    mangled: str
    architecture: int  # 90
    threads: int = 0  # of a block, at most
    registers: int = 0
    frame_bytes: int = 0  # of local memory: what is spilled, and arrays that are not in registers
    shared_bytes: int = 0  # that it declares
    loads: int = 0
    wide_loads: int = 0
    stores: int = 0
    wide_stores: int = 0


def sections(elf: bytes):
    """(name, type, link and info, offset, bytes) of each section of a 64-bit ELF file, and its symbols' names."""
    begin, = struct.unpack_from("<Q", elf, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", elf, begin + i * size) for i in range(count)]
    names = headers[names_at]
    text = lambda table, at: elf[table[4] + at:elf.index(b"\0", table[4] + at)].decode()  # noqa: E731
    found = [(text(names, h[0]), h[1], h[4], h[5]) for h in headers]
    symbols = []
    for h in headers:
        if h[1] == 2:  # SHT_SYMTAB
            strings = headers[h[6]]
            symbols = [text(strings, struct.unpack_from("<I", elf, at)[0])
                       for at in range(h[4], h[4] + h[5], 24)]
    return found, symbols


def attributes(data: bytes):
    """(attribute, payload) of an .nv.info section."""
    at = 0
    while at + 4 <= len(data):
        form, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == 4:  # a size and so many bytes
            yield attribute, data[at:at + value]
            at += value


def count_accesses(kernel: Kernel, code: bytes):
    for low, high in struct.iter_unpack("<QQ", code):
        opcode = low & 0xFFF
        shift = 10 if opcode in ASYNCHRONOUS and kernel.architecture >= 100 else 9
        wide = (high >> shift & 7) == SIXTEEN_BYTES
        if opcode in LOADS or opcode in ASYNCHRONOUS:
            kernel.loads += 1
            kernel.wide_loads += wide
        elif opcode in STORES:
            kernel.stores += 1
            kernel.wide_stores += wide


def kernels_of_cubin(source: str, architecture: int, elf: bytes):
    found, symbols = sections(elf)
    data = {name: elf[at:at + size] for name, kind, at, size in found if kind != 8}  # NOBITS
    sizes = {name: size for name, _, _, size in found}
    of_module = {(attribute, symbols[struct.unpack_from("<I", payload)[0]]): struct.unpack_from("<I", payload, 4)[0]
                 for attribute, payload in attributes(data.get(".nv.info", b"")) if attribute in (REGISTERS, FRAME_BYTES)}
    for name in data:
        if not name.startswith(".text."):
            continue
        mangled = name[len(".text."):]
        shared = sizes.get(f".nv.shared.{mangled}", 0)
        if architecture >= 90:
            shared = max(shared - SYSTEMS_SHARED_BYTES, 0)
        kernel = Kernel(source, mangled, architecture, registers=of_module[REGISTERS, mangled],
                        frame_bytes=of_module.get((FRAME_BYTES, mangled), 0), shared_bytes=shared)
        for attribute, payload in attributes(data.get(f".nv.info.{mangled}", b"")):
            if attribute == MOST_THREADS:
                x, y, z = struct.unpack_from("<III", payload)
                kernel.threads = x * y * z
        count_accesses(kernel, data[name])
        yield kernel


def kernels_of_object(path: pathlib.Path):
    """Of all architectures that the object was compiled for."""
    elf = path.read_bytes()
    for name, _, begin, size in sections(elf)[0]:
        at = begin
        while name == ".nv_fatbin" and at + 16 <= begin + size:
            magic, _, header, length = struct.unpack_from("<IHHQ", elf, at)
            if magic != FAT_BINARY:
                at += 8  # alignment between two
                continue
            entry, at = at + header, at + header + length
            while entry < at:
                kind, _, header, length = struct.unpack_from("<HHIQ", elf, entry)
                architecture, = struct.unpack_from("<I", elf, entry + 28)
                if kind == CUBIN:
                    payload = elf[entry + header:entry + header + length]
                    yield from kernels_of_cubin(path.stem, architecture, payload)
                entry += header + length


def short_names(mangled: list) -> dict:
    """Names without namespaces and arguments, of all at once."""
    plain = subprocess.run(["c++filt"], input="\n".join(mangled), capture_output=True, text=True, check=True).stdout
    return dict(zip(mangled, map(short_name, plain.splitlines())))


def short_name(name: str) -> str:
    name = re.sub(r"strata::kernels::|cuda::|\(anonymous namespace\)::|<unnamed>::|^void ", "", name)
    return re.sub(r"\((int|bool|Of)\)", "", name.replace("(bool)1", "true").replace("(bool)0", "false")).split("(")[0]
