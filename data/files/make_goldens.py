"""Small token files of every kind, made with nothing but struct: what the readers must read and the writers write.

Not run in tests: the stored files are. To make them again:
    python3 data/files/make_goldens.py data/files/goldens

Token i is i * 7919 % 50257 (for 32-bit kinds i * 7919 % 128256, for bytes i * 37 % 256), a target unless i is
divisible by 3; 21 tokens in documents that end at 5, 12 and 21.
"""

import struct
import sys

TOKENS, ENDS = 21, [5, 12, 21]
NARROW = [i * 7919 % 50257 for i in range(TOKENS)]
WIDE = [i * 7919 % 128256 for i in range(TOKENS)]
BYTES = [i * 37 % 256 for i in range(TOKENS)]
TRAINED = [i % 3 != 0 for i in range(TOKENS)]


def packed(kind, numbers):
    return struct.pack(f"<{len(numbers)}{kind}", *numbers)


def page(*words, magic=b""):
    head = magic + packed("i", words)
    return head + b"\0" * (1024 - len(head))


def mask():
    out = bytearray((TOKENS + 7) // 8)
    for i, trained in enumerate(TRAINED):
        out[i // 8] |= trained << (i % 8)
    return bytes(out)


def index(code, width, ends, first_of_documents):
    begins = [0] + ends[:-1]
    out = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(ends), len(first_of_documents))
    out += packed("i", [e - b for b, e in zip(begins, ends)])
    out += packed("q", [b * width for b in begins])
    return out + packed("q", first_of_documents)


def main(folder):
    llmq = b"BIN.TOK\n"
    files = {
        "llmq_v2.bin": page(2, 4, TOKENS, 128256, 1, magic=llmq) + packed("i", WIDE) + mask(),
        "llmq_v2_unmasked.bin": page(2, 4, TOKENS, 128256, 0, magic=llmq) + packed("i", WIDE),
        "llmq_v1.bin": (llmq + packed("i", [1, 4, TOKENS])).ljust(1023, b"*") + b"\n" + packed("i", WIDE),
        "llmq_v2.bin.documents": b"STRDOCS\n" + struct.pack("<IIqq", 1, 0, len(ENDS), TOKENS) + packed("q", ENDS),
        "llmc_gpt2.bin": page(20240520, 1, TOKENS) + packed("H", NARROW),
        "llmc_llama3.bin": page(20240801, 7, TOKENS) + packed("I", WIDE),
        "llmc_choices.bin": page(20240522, 1, 1, 40) + packed("H", NARROW),
        "raw.bin": packed("H", NARROW),
        "megatron.bin": packed("H", NARROW),
        "megatron.idx": index(8, 2, ENDS, [0, 1, 2, 3]),
        "megatron_wide.bin": packed("i", WIDE),
        "megatron_wide.idx": index(4, 4, ENDS, [0, 1, 2, 3]),
        # Documents of two sequences and of one, with an empty one between them.
        "megatron_long.bin": packed("q", WIDE),
        "megatron_long.idx": index(5, 8, ENDS, [0, 2, 2, 3]) + bytes(3),
        "megatron_bytes.bin": packed("B", BYTES),
        "megatron_bytes.idx": index(1, 1, ENDS, [0, 1, 2, 3]),
    }
    for name, content in files.items():
        with open(f"{folder}/{name}", "wb") as file:
            file.write(content)


if __name__ == "__main__":
    main(sys.argv[1])
