"""The only file that BUILD files load."""

load("//bazel:proto.bzl", _strata_proto_library = "strata_proto_library")

strata_proto_library = _strata_proto_library

# Warnings are errors in our code; system headers are exempt because they are system headers.
_COPTS = ["-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]

def strata_library(name, deps = [], copts = [], **kwargs):
    """A C++ library of Strata. Abseil is always there: everything fallible returns absl::Status."""
    native.cc_library(name = name, deps = deps + ["@system//:absl"], copts = _COPTS + copts, **kwargs)

def strata_binary(name, deps = [], copts = [], **kwargs):
    native.cc_binary(name = name, deps = deps + ["@system//:absl"], copts = _COPTS + copts, **kwargs)

def strata_test(name, deps = [], copts = [], size = "small", **kwargs):
    """A GoogleTest program.

    Tags `asan` and `tsan` put it among the tests that ./dev test repeats under those sanitizers; `asan-all` and
    `tsan-all` are for long ones, which only ./dev test --all repeats.
    """
    native.cc_test(
        name = name,
        size = size,
        deps = deps + ["@system//:absl", "@system//:gmock", "@system//:gtest", "@system//:gtest_main"],
        copts = _COPTS + copts,
        **kwargs
    )

def strata_python_test(name, script, data = [], size = "small", **kwargs):
    """A Python program run with the distribution's python3; `data` are the files it reads."""
    native.sh_test(
        name = name,
        size = size,
        srcs = ["//bazel:python_test.sh"],
        args = ["$(location %s)" % script],
        data = [script] + data,
        **kwargs
    )
