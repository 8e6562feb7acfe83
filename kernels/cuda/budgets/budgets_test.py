"""budgets_test.py [--write] LAUNCHES OBJECT…: every kernel against its budget; and that budgets which do not hold are found."""

import copy
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import budgets  # noqa: E402
import device_limits  # noqa: E402

PATHS = [pathlib.Path(a) for a in sys.argv[1:] if not a.startswith("-")]


class Occupancy(unittest.TestCase):
    def test_what_ends_first_binds(self):
        for expected, *kernel in [
                (64, 90, 256, 32, 0),            # all that there are
                (48, 86, 256, 32, 0),
                (8, 90, 128, 255, 0),            # registers: two warps in each quarter
                (40, 90, 256, 48, 0),            # registers: ten, and five blocks of eight
                (16, 90, 256, 32, 99 << 10),     # shared memory: two blocks
                (4, 89, 128, 32, 99 << 10),      # one block has it all
                (0, 89, 128, 32, 100 << 10),     # what is reserved does not fit
                (32, 90, 32, 32, 0),             # blocks
                (64, 80, 1024, 32, 48 << 10)]:
            self.assertEqual(device_limits.resident_warps(*kernel), expected, kernel)

    def test_rooflines(self):
        h100 = device_limits.DEVICES[0]
        self.assertEqual(device_limits.roofline(h100, 3.35e9, 1, "f32"), (1000, "memory"))
        self.assertEqual(device_limits.roofline(h100, 1, 989e9, "tensor"), (1000, "tensor"))


class Kernels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.problems = budgets.compare(PATHS[0].resolve(), PATHS[1:], pathlib.Path.cwd(), False)
        cls.table = budgets.read_table(pathlib.Path(budgets.TABLE))

    def test_hold_their_budgets(self):
        self.assertEqual(self.problems, [], f"if that is meant: {budgets.REWRITE}")

    def test_nothing_spills_on_sm_90(self):
        self.assertEqual([b.name() for b in self.table.values() if b.architecture == 90 and b.frame_bytes], [])

    def test_packets_are_read_and_written_by_16_bytes(self):
        seen = 0
        for (source, kernel, _), budget in self.table.items():
            if not kernel.startswith(("RmsNormForwardKernel", "GatedForwardKernel", "AddBiasKernel")):
                continue
            seen += 1
            if ", 1>" in kernel or ", 1, " in kernel:
                self.assertEqual((budget.wide_loads, budget.wide_stores), (0, 0), kernel)
            else:
                self.assertGreater(budget.wide_loads, 0, kernel)
                self.assertEqual(budget.wide_stores > 0, True, kernel)
        self.assertGreater(seen, 0)

    def changed(self, **values):
        """What is said of a kernel with other values."""
        key = next(key for key in self.table if key[1].startswith("TensorForwardKernel<BFloat16, 128,"))
        new = {key: copy.copy(self.table[key])}
        for name, change in values.items():
            setattr(new[key], name, getattr(new[key], name) + change)
        return budgets.worse({key: self.table[key]}, new, []), self.table[key]

    def test_what_becomes_worse_is_told(self):
        self.assertEqual(self.changed(), ([], self.changed()[1]))
        self.assertEqual(self.changed(warps=8, wide_loads=1, registers=-8)[0], [])
        problems, before = self.changed(frame_bytes=16)
        self.assertIn("attention_tensor_forward.cu: TensorForwardKernel<BFloat16, 128, ", problems[0])
        self.assertIn("spills: 0 before, 16 bytes now", problems[0])
        self.assertIn(f"warps on a multiprocessor: {before.warps} before, {before.warps - 4} now",
                      self.changed(warps=-4)[0][0])
        self.assertIn(f"loads of 16 bytes: {before.wide_loads} before, {before.wide_loads - 1} now",
                      self.changed(wide_loads=-1)[0][0])
        self.assertIn("stores of 16 bytes", self.changed(wide_stores=-1)[0][0])

    def test_new_lost_and_idle_kernels_are_told(self):
        key = next(iter(self.table))
        one = {key: self.table[key]}
        self.assertIn("not in the table", budgets.worse({}, one, [])[0])
        other = {(*key[:2], key[2]): one[key], ("x.cu", "Gone", key[2]): one[key]}
        self.assertIn("not in the code", budgets.worse(other, one, [])[0])
        self.assertIn("launches", budgets.worse(one, one, ["x.cu: Kernel"])[0])


if __name__ == "__main__":
    if "--write" in sys.argv:
        sys.exit(budgets.main(sys.argv[1:]))
    unittest.main(argv=sys.argv[:1], verbosity=2)
