"""Objects compiled for AVX-512 define no code that the linker could take for other CPUs' use.

An inline function of a header that is not inlined is a weak symbol, of which a program keeps one, from any object: that
one must not need AVX-512 unless only kernels of AVX-512 name it.
"""

import pathlib
import subprocess
import unittest

KERNELS = pathlib.Path("kernels")


class IsolationTest(unittest.TestCase):
    def test_every_symbol_belongs_to_the_instruction_set(self):
        archives = sorted(KERNELS.glob("*_avx512.a")) + sorted(KERNELS.glob("*_avx512.pic.a"))
        self.assertTrue(archives)
        for archive in archives:
            symbols = subprocess.run(["nm", "--defined-only", "--format=posix", archive], check=True, capture_output=True, text=True)
            for line in symbols.stdout.splitlines():
                name, kind = (line.split() + ["", ""])[:2]
                if kind in "TWui":
                    self.assertIn("avx512", name, f"{archive}: {name}")


if __name__ == "__main__":
    unittest.main()
