"""The checker finds what it is for: each rule on a planted violation, and silence on what is right."""

import pathlib
import subprocess
import tempfile
import unittest

import functions
import layers
import tidy


def rules(path: str, text: str) -> list:
    """(line, rule) of each violation."""
    return [(line, rule) for line, rule, _ in tidy.check_text(path, text)]


class Layers(unittest.TestCase):
    def includes(self, path, *headers):
        return [line for line, rule in rules(path, "".join(f"#include {h}\n" for h in headers))
                if rule == "layers"]

    def test_a_layer_may_use_what_lies_below(self):
        for path, header in [
                ("planner/search.cc", "program/ir/program.h"), ("spec/parse.cc", "model/llama.h"),
                ("client/run.cc", "controller/logic/job.h"), ("client/run.cc", "program/layout.h"),
                ("worker/trainer/main.cc", "kernels/attention.h"), ("worker/engine/op.cc", "device/stream.h"),
                ("worker/agent/main.cc", "topology/probe/cpu.h"), ("controller/logic/a.cc", "checkpoint/manifest.h"),
                ("tests/parity/a.cc", "worker/engine/op.h"), ("data/a.cc", "proto/strata/v1/job.pb.h"),
                ("model/llama.cc", "program/ir/program.h")]:
            self.assertEqual(self.includes(path, f'"{header}"'), [], f"{path} -> {header}")

    def test_a_layer_may_not_reach_up_or_sideways(self):
        for path, header in [
                ("common/a.cc", "device/stream.h"), ("common/a.cc", "proto/strata/v1/job.pb.h"),
                ("program/layout.cc", "model/llama.h"), ("model/llama.cc", "program/layout.h"),
                ("model/llama.cc", "topology/graph.h"), ("kernels/a.cc", "memory/arena.h"),
                ("planner/a.cc", "topology/probe/cpu.h"), ("controller/a.cc", "worker/shared/progress.h"),
                ("worker/agent/a.cc", "controller/logic/job.h"), ("worker/agent/a.cc", "worker/engine/op.h"),
                ("worker/engine/a.cc", "worker/trainer/main.h"), ("worker/trainer/a.cc", "topology/probe/probe.h"),
                ("worker/trainer/a.cc", "scheduler/queue/queue.h"),
                ("client/a.cc", "controller/store.h"), ("client/a.cc", "worker/engine/op.h"),
                ("controller/a.cc", "checkpoint/safetensors.h"), ("data/a.cc", "tests/tidy/a.h"),
                ("program/ir/a.cc", "program/layout.h")]:
            self.assertEqual(self.includes(path, '"common/units.h"', f'"{header}"'), [2], f"{path} -> {header}")

    def test_libraries_stay_in_their_folders(self):
        for path, header in [("planner/a.cc", "cuda_runtime.h"), ("collectives/ucx/a.cc", "nccl.h"),
                             ("controller/logic/a.cc", "grpcpp/grpcpp.h"), ("scheduler/a.cc", "sqlite3.h"),
                             ("worker/engine/a.cc", "hwloc.h"),
                             ("worker/engine/a.cc", "proto/strata/v1/worker.grpc.pb.h")]:
            self.assertTrue(self.includes(path, f"<{header}>"), f"{path} -> {header}")
        for path, header in [("device/cuda/a.cc", "cuda_runtime.h"), ("memory/a.cc", "cuda.h"),
                             ("controller/job_service.cc", "grpcpp/grpcpp.h"), ("controller/a.cc", "sqlite3.h"),
                             ("topology/probe/a.cc", "hwloc.h")]:
            self.assertEqual(self.includes(path, f"<{header}>"), [], f"{path} -> {header}")

    def test_unknown_folders_are_refused(self):
        self.assertEqual(self.includes("utils/a.cc", "<vector>"), [1])

    def test_the_table_names_only_known_units(self):
        for unit, grants in layers.MAY_USE.items():
            for grant in grants:
                self.assertIn(grant if not grant.endswith("*") else "common", layers.MAY_USE, unit)


class Functions(unittest.TestCase):
    TEXT = """// { in a comment
#define OPEN {
namespace strata {
struct alignas(64) Pair {
  int a = 1;
  Pair() : a_{1}, b_{2} {
    Use("}", '{');
  }
  int Sum() const {
    if (a_) {
      return 1;
    }
    return 2;
  }
};
constexpr int kTable[] = {
    1,
};
template <typename T>
absl::StatusOr<T> Convert(
    const T& value) {
  auto f = [&] { return Raw{R"x({)x"}; };
  return f();
}
}  // namespace strata
"""

    def test_finds_every_definition_with_its_length(self):
        self.assertEqual(list(functions.functions(self.TEXT)),
                         [(6, "Pair", 3), (9, "Sum", 6), (19, "Convert", 6)])

    def test_seventy_lines_pass_and_one_more_does_not(self):
        def body(lines):
            return "void Run() {\n" + "  Step();\n" * (lines - 2) + "}\n"
        self.assertEqual(rules("model/a.cc", body(70)), [])
        self.assertEqual(rules("model/a.cc", body(71)), [(1, "function-length")])
        self.assertEqual(rules("kernels/a.cc", body(71)), [])


class Text(unittest.TestCase):
    def test_file_length(self):
        self.assertEqual(rules("model/a.cc", "int a;\n" * 500), [])
        self.assertEqual(rules("model/a.cc", "int a;\n" * 501), [(501, "file-length")])
        self.assertEqual(rules("kernels/a.cc", "int a;\n" * 800), [])
        self.assertEqual(rules("kernels/a.cc", "int a;\n" * 801), [(801, "file-length")])
        self.assertEqual(rules("tests/a.py", "a = 1\n" * 501), [(501, "file-length")])

    def test_columns_count_characters(self):
        self.assertEqual(rules("model/a.cc", "// " + "–" * 97 + "\n"), [])
        self.assertEqual(rules("model/a.cc", "// " + "–" * 98 + "\n"), [(1, "columns")])

    def test_guards(self):
        good = "// Says what.\n#ifndef STRATA_MODEL_A_H_\n#define STRATA_MODEL_A_H_\n#endif\n"
        self.assertEqual(rules("model/a.h", good), [])
        self.assertEqual(rules("model/b.h", good), [(2, "guard")])
        self.assertEqual(rules("model/a.h", "#pragma once\n"), [(1, "guard")])

    def test_banned_calls(self):
        for path, line in [
                ("model/a.cc", "using namespace std;"), ("model/a.cc", "absl::Mutex m;"),
                ("planner/a.cc", "auto t = absl::Now();"), ("worker/engine/a.cc", "auto t = steady_clock::now();"),
                ("model/a.cc", "std::thread t(f);"), ("worker/a.cc", "std::exit(1);"), ("worker/a.cc", "abort();"),
                ("data/a.cc", "system(line);"), ("data/a.cc", "assert(x);"), ("data/a.cc", "throw 1;"),
                ("model/a.cc", "int r = rand();"), ("worker/engine/a_test.cc", "std::this_thread::sleep_for(d);"),
                ("tests/parity/a.cc", "usleep(5);"), ("model/a_test.cc", "TEST(A, DISABLED_B) {}")]:
            path_rules = rules(path, f"int a;\n{line}\n")
            self.assertIn((2, "banned"), path_rules, line)

    def test_what_only_looks_banned(self):
        for path, line in [
                ("common/check.h", "std::abort();"), ("model/a.cc", "// throw, exit( and abort( in words"),
                ("model/a.cc", 'Say("system(x)");'), ("worker/agent/a.cc", "_exit(127);"),
                ("worker/engine/a.cc", "std::thread t(f);"), ("model/a_test.cc", "std::thread t(f);"),
                ("worker/a.cc", "int n = std::thread::hardware_concurrency();"), ("model/a.cc", "static_assert(x);"),
                ("common/clock.h", "steady_clock::now();"), ("client/a.cc", "on_exit(1); loop.exit();")]:
            self.assertNotIn("banned", [rule for _, rule in rules(path, f"{line}\n")], line)

    def test_words(self):
        for word in ["TO" + "DO", "FIX" + "ME"]:
            self.assertEqual(rules("docs/a.md", f"ok\n{word}: later\n"), [(2, "unfinished")])
        for word in ["/ro" + "ot/a", "/wo" + "rk/b", "Co-auth" + "ored-by: x", "see iss" + "ue #3", "A" + "I-generated"]:
            self.assertEqual(rules("docs/a.md", f"ok\n{word}\n"), [(2, "foreign")], word)
        self.assertEqual(rules("docs/a.md", "an issue with 3 roots, network/root/a, the work/ folder\n"), [])

    def test_build_files_load_one_file(self):
        self.assertEqual(rules("model/BUILD.bazel", 'load("//bazel:defs.bzl", "strata_test")\n'), [])
        self.assertEqual(rules("model/BUILD.bazel", '\nload("@rules_cc//cc:defs.bzl", "x")\n'), [(2, "build-file")])

    def test_generated_files_are_left_alone(self):
        self.assertEqual(rules("program/golden/dump.txt", "x" * 300 + "\n" + "y\n" * 900), [])


class Tree(unittest.TestCase):
    def test_a_small_tree_with_one_unformatted_file(self):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            (root / "model").mkdir()
            (root / ".clang-format").write_text("BasedOnStyle: Google\n")
            (root / "model/good.cc").write_text("int a = 1;\n")
            self.assertEqual(tidy.main(root), 0)
            (root / "model/bad.cc").write_text("int a = 1;\nint  b=2;\n")
            found = list(tidy.check_format(root, ["model/good.cc", "model/bad.cc"]))
            self.assertEqual([(path, line, rule) for path, line, rule, _ in found], [("model/bad.cc", 2, "format")])
            self.assertEqual(tidy.main(root), 1)

    def test_untracked_files_count_and_ignored_ones_do_not(self):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            subprocess.run(["git", "init", "-q", name], check=True)
            (root / ".gitignore").write_text("/out/\n")
            (root / "out").mkdir()
            (root / "out/a.cc").write_text("x")
            (root / "new.md").write_text("x")
            self.assertEqual(tidy.tracked(root), [".gitignore", "new.md"])


if __name__ == "__main__":
    unittest.main()
