"""Objects compiled for AVX-512 define no code that the linker could take for other CPUs' use.

An inline function of a header that is not inlined is a weak symbol, of which a program keeps one, from any object: that
one must not need AVX-512 unless only kernels of AVX-512 name it.
"""

import pathlib
import subprocess
import unittest


class IsolationTest(unittest.TestCase):
    def test_every_symbol_belongs_to_the_instruction_set(self):
        libraries = sorted(pathlib.Path(".").glob("_solib_*/*avx512.so"))
        self.assertTrue(libraries)
        for library in libraries:
            nm = ["nm", "--defined-only", "--format=posix", library]
            for line in subprocess.run(nm, check=True, capture_output=True, text=True).stdout.splitlines():
                name, kind = line.split()[:2]
                if name.startswith("_Z") and kind in "TWui":
                    self.assertIn("avx512", name, library)


if __name__ == "__main__":
    unittest.main()
