"""What build_bench.py makes of Bazel's action graph and of the seconds it measured."""

import unittest

import build_bench


def compile_action(source, mnemonic="CppCompile"):
    return {"mnemonic": mnemonic, "arguments": ["gcc", "-MF", "bazel-out/k8-opt/bin/x.d", "-iquote", "bazel-out/k8-opt/bin",
                                                "-c", source, "-o", "bazel-out/k8-opt/bin/x.o"]}


class BuildBench(unittest.TestCase):
    def test_only_compilations_are_units(self):
        graph = {"actions": [compile_action("a/b.cc"), compile_action("a/c.cc", "CppLink"),
                             {"mnemonic": "CppCompile", "arguments": ["gcc", "-E"]}]}
        self.assertEqual(list(build_bench.compile_commands(graph)), ["a/b.cc"])

    def test_generated_sources_count_with_their_folder(self):
        self.assertEqual(build_bench.folder_of("bazel-out/k8-opt/bin/proto/strata/v1/job.pb.cc"), "proto/strata/v1")
        self.assertEqual(build_bench.folder_of("client/views/job_view.cc"), "client/views")

    def test_outputs_go_elsewhere_and_generated_headers_are_found(self):
        command = build_bench.runnable(compile_action("a/b.cc")["arguments"], "/cache/bazel-out", "/tmp/x")
        self.assertEqual(command, ["gcc", "-MF", "/tmp/x/dependencies", "-iquote", "/cache/bazel-out/k8-opt/bin", "-c",
                                   "a/b.cc", "-o", "/tmp/x/object"])

    def test_a_sample_has_a_unit_of_each_folder(self):
        commands = dict.fromkeys(["a/1.cc", "a/2.cc", "a/3.cc", "b/1.cc"])
        self.assertEqual(build_bench.sampled(commands, 2), ["a/1.cc", "a/3.cc", "b/1.cc"])
        self.assertEqual(build_bench.sampled(commands, 1), sorted(commands))

    def test_sums_of_a_sample_are_scaled_and_marked(self):
        commands = dict.fromkeys(["a/1.cc", "a/2.cc", "b/1.cc"])
        lines = build_bench.table(commands, {"a/1.cc": 2.0, "b/1.cc": 1.0}, worst=1)
        self.assertIn("| a | 2 | ~4.0 |", lines)
        self.assertIn("| b | 1 | 1.0 |", lines)
        self.assertIn("| all | 3 | ~5 |", lines)
        self.assertEqual(lines[-1], "| a/1.cc | 2.0 |")


if __name__ == "__main__":
    unittest.main()
