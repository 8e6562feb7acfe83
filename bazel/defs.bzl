"""The only file that BUILD files load."""

load("@cuda//:toolkit.bzl", "LIBRARY_FOLDERS")
load("//bazel:cuda.bzl", "NEEDS_CUDA", "cuda_objects", _cuda_architectures = "cuda_architectures")
load("//bazel:proto.bzl", _strata_proto_library = "strata_proto_library")

strata_proto_library = _strata_proto_library
cuda_architectures = _cuda_architectures

# Warnings are errors in our code; system headers are exempt because they are system headers.
_COPTS = ["-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]

# Packages whose code waits for people, files, networks and devices: -O1 compiles faster than -O2.
_UNHURRIED = [
    "cli",
    "client",
    "controller",
    "controller/metrics",
    "controller/service",
    "controller/service/calls",
    "controller/service/files",
    "controller/service/reactor",
    "controller/service/requests",
    "controller/service/streams",
    "controller/service/transport",
    "controller/store",
    "kernels/cuda/cudnn",
    "local_cluster",
    "spec",
    "text",
    "worker/agent",
    "worker/agent/cluster",
    "worker/agent/machine",
    "worker/agent/standalone",
    "worker/agent/trainers",
]

def _optimisation():
    return ["-O1"] if native.package_name() in _UNHURRIED else []

def _unity_source_impl(context):
    source = context.actions.declare_file(context.label.name + ".cc")
    lines = ["#include \"%s\"\n" % file.short_path for file in context.files.srcs]
    context.actions.write(source, "".join(lines))
    return [DefaultInfo(files = depset([source]))]

# One source that includes the others, by their paths from the tree's root.
_unity_source = rule(
    implementation = _unity_source_impl,
    attrs = {"srcs": attr.label_list(allow_files = [".cc"])},
)

def _as_one(name, srcs, testonly):
    """Sources and dependencies with which all .cc files of `srcs` are compiled as one."""
    units = [source for source in srcs if source.endswith(".cc")]
    if len(units) < 2:
        return srcs, []
    _unity_source(name = name + "_unity", srcs = units, testonly = testonly)
    native.cc_library(name = name + "_sources", textual_hdrs = units, testonly = testonly)
    return [source for source in srcs if source not in units] + [name + "_unity"], [name + "_sources"]

def strata_library(name, srcs = [], deps = [], copts = [], unity = False, testonly = False, **kwargs):
    """A C++ library of Strata. Abseil is always there: everything fallible returns absl::Status.

    unity: its sources are compiled as one, so that their headers are parsed once; parsing is most of a unit's time.
    Names in their anonymous namespaces must then differ (the compiler says where they do not); each source still
    includes what it uses, as clang-tidy reads them one by one.
    """
    more_deps = []
    if unity:
        srcs, more_deps = _as_one(name, srcs, testonly)
    native.cc_library(
        name = name,
        srcs = srcs,
        copts = _COPTS + _optimisation() + copts,
        testonly = testonly,
        deps = deps + more_deps + ["@system//:absl"],
        **kwargs
    )

# Every kernel runs on AVX2 with FMA and F16C (kernels/isa.h tells who lacks them). Products and sums are fused
# only where the code says so: an element then has the same bits in the middle of a range and at its end.
SIMD_COPTS = ["-mavx2", "-mfma", "-mf16c", "-ffp-contract=off"]

# g++ 12 warns of the undefined operands in its own AVX-512 intrinsics; the other compilation warns of ours.
_AVX512_COPTS = [
    "-mavx512f",
    "-mavx512bw",
    "-mavx512dq",
    "-mavx512vl",
    "-DSTRATA_COMPILE_AVX512",
    "-Wno-uninitialized",
    "-Wno-maybe-uninitialized",
]

# AVX-512 and AMX.
TILE_COPTS = SIMD_COPTS + _AVX512_COPTS + ["-mavx512bf16", "-mamx-tile", "-mamx-bf16"]

def strata_kernel_library(name, srcs, deps = [], copts = [], hdrs = [], **kwargs):
    """A library whose sources are compiled for AVX2 and again for AVX-512: those of `srcs`, headers apart."""
    strata_library(
        name = name + "_avx512",
        srcs = srcs + hdrs,
        copts = SIMD_COPTS + copts + _AVX512_COPTS,
        visibility = ["//kernels:__pkg__"],
        deps = deps,
    )
    strata_library(
        name = name,
        srcs = srcs,
        hdrs = hdrs,
        copts = SIMD_COPTS + copts,
        deps = deps + [":" + name + "_avx512"],
        **kwargs
    )

def strata_binary(name, deps = [], copts = [], **kwargs):
    native.cc_binary(
        name = name,
        deps = deps + ["@system//:absl"],
        copts = _COPTS + _optimisation() + copts,
        **kwargs
    )

def strata_test(name, srcs, deps = [], copts = [], size = "small", unity = False, **kwargs):
    """A GoogleTest program, compiled with -O1: what it tests runs as fast as it will. `unity` as for a library.

    Tags `asan` and `tsan` put it among the tests that ./dev test repeats under those sanitizers; `asan-all` and
    `tsan-all` are for long ones and for those that link gRPC, which only ./dev test --all repeats.
    """
    more_deps = []
    if unity:
        srcs, more_deps = _as_one(name, srcs, True)
    native.cc_test(
        name = name,
        size = size,
        srcs = srcs,
        deps = deps + more_deps + ["@system//:absl", "@system//:gmock", "@system//:gtest", "@system//:gtest_main"],
        copts = _COPTS + ["-O1"] + copts,
        **kwargs
    )

def strata_kernel_test(name, srcs, deps = [], copts = [], size = "small", tags = [], **kwargs):
    """A unity test of kernels that runs twice: as the CPU is, and as one without AVX-512 (NAME_avx2).

    Under sanitizers, where it takes minutes, the second one runs with --all alone.
    """
    srcs, more_deps = _as_one(name, srcs, True)
    native.cc_library(
        name = name + "_cases",
        srcs = srcs,
        alwayslink = True,
        testonly = True,
        deps = deps + more_deps + ["@system//:absl", "@system//:gmock", "@system//:gtest"],
        copts = _COPTS + ["-O1"] + copts,
    )
    for suffix, env in {"": {}, "_avx2": {"STRATA_MAX_ISA": "avx2"}}.items():
        native.cc_test(
            name = name + suffix,
            size = size,
            tags = [tag + "-all" if suffix and tag in ["asan", "tsan"] else tag for tag in tags],
            deps = [name + "_cases", "@system//:gtest_main"],
            env = env,
            **kwargs
        )

def strata_fuzz_test(name, srcs, deps = [], **kwargs):
    """A fuzz target: a source with LLVMFuzzerTestOneInput, and seeds in the folder seeds/NAME.

    As a test it runs the seeds and mutations of them, the same in every run, for a second. With --config=fuzz it is a
    program of libFuzzer: ./dev fuzz NAME.
    """
    native.cc_test(
        name = name,
        size = "small",
        srcs = srcs,
        args = ["--runs 20000 --seconds 1 %s/seeds/%s" % (native.package_name(), name)],
        data = native.glob(["seeds/%s/*" % name]),
        copts = _COPTS + ["-O1"],
        linkopts = select({"//tests/fuzz:libfuzzer": ["-fsanitize=fuzzer"], "//conditions:default": []}),
        tags = ["asan"],
        deps = deps + ["@system//:absl"] +
               select({"//tests/fuzz:libfuzzer": [], "//conditions:default": ["//tests/fuzz:driver"]}),
        **kwargs
    )

def strata_python_test(name, script, data = [], args = [], size = "small", needs_cuda = False, **kwargs):
    """A Python program run with the distribution's python3; `data` are the files it reads. needs_cuda: skipped without."""
    native.sh_test(
        name = name,
        size = size,
        srcs = ["//bazel:python_test.sh"],
        args = ["$(location %s)" % script] + args,
        data = [script] + data,
        target_compatible_with = NEEDS_CUDA if needs_cuda else [],
        **kwargs
    )

def strata_cuda_library(name, srcs = [], hdrs = [], deps = [], nvcc_copts = [], testonly = False, **kwargs):
    """A library with CUDA code: .cu sources by nvcc, .cc sources by g++ with CUDA's headers.

    It needs --config=cuda and is skipped without. It links no CUDA runtime: the program chooses between the real one
    (@cuda//:cudart) and the stand-in (//device/standin:runtime).
    """
    kernels = [source for source in srcs if source.endswith(".cu")]
    units = [source for source in srcs if source not in kernels]
    if kernels:
        cuda_objects(name + "_objects", kernels, hdrs, deps, nvcc_copts, testonly)
    native.cc_library(
        name = name,
        srcs = units + ([name + "_objects"] if kernels else []),
        hdrs = hdrs,
        copts = _COPTS + _optimisation(),
        testonly = testonly,
        target_compatible_with = NEEDS_CUDA,
        deps = deps + ["@cuda//:headers", "@system//:absl"],
        alwayslink = True,  # kernels register themselves
        **kwargs
    )

def strata_cuda_binary(name, srcs, deps = [], **kwargs):
    """A program that calls launchers of CUDA code and brings a runtime of its own."""
    native.cc_binary(
        name = name,
        srcs = srcs,
        copts = _COPTS + ["-O1"],
        target_compatible_with = NEEDS_CUDA,
        linkstatic = True,
        deps = deps + ["@cuda//:headers", "@system//:absl"],
        **kwargs
    )

# CUDA's libraries besides the runtime: their stand-ins, and the real ones.
_CUDA_LIBRARIES = {
    "cublaslt": {"standin": "//device/standin/cublaslt", "gpu": "@cuda//:cublaslt"},
    "nccl": {"standin": "//device/standin:nccl", "gpu": "@cuda//:nccl"},
}

# Where the real libraries are here; elsewhere the system finds them, or LD_LIBRARY_PATH.
def _library_folders(runtime):
    return ["-Wl,-rpath,%s" % folder for folder in LIBRARY_FOLDERS] if runtime == "gpu" else []

def strata_cuda_programs(name, srcs, deps = [], gpu_deps = [], gpu_defines = [], libraries = [], **kwargs):
    """One program of CUDA code twice: NAME-gpu with the real libraries, NAME-standin with their stand-ins.

    gpu_deps, gpu_defines: of NAME-gpu alone.
    """
    for runtime, runtime_dep in [("gpu", "@cuda//:cudart"), ("standin", "//device/standin:runtime")]:
        native.cc_binary(
            name = name + "-" + runtime,
            srcs = srcs,
            copts = _COPTS + _optimisation(),
            linkopts = _library_folders(runtime),
            local_defines = ["STRATA_CUDA_STANDIN"] if runtime == "standin" else gpu_defines,
            target_compatible_with = NEEDS_CUDA,
            linkstatic = True,  # the runtime's static library is not shared by libraries of ours
            deps = deps + (gpu_deps if runtime == "gpu" else []) +
                   [_CUDA_LIBRARIES[library][runtime] for library in libraries] +
                   [runtime_dep, "@cuda//:headers", "@system//:absl"],
            **kwargs
        )

def strata_cuda_test(
        name,
        srcs,
        deps = [],
        size = "small",
        tags = [],
        standin = True,
        gpu = True,
        needs_gpu = True,
        always_linked = False,
        libraries = [],
        **kwargs):
    """One GoogleTest source, two programs: NAME_standin with the stand-in runtime, NAME_gpu with the real one.

    libraries: others of CUDA's that it calls, by their names in _CUDA_LIBRARIES.

    NAME_gpu has the tag `gpu` and is manual: ./dev test --all builds and runs it, and tests/gpu/run takes it to a machine
    with a GPU. Without one its tests skip, saying so. Sources include "device/standin/testing/cuda_test.h".
    always_linked: it is run in every pass over CUDA code, to see that it links and skips. standin, gpu = False: there is
    no such twin, as the test is about the other runtime. needs_gpu = False: the real libraries answer without one, and
    NAME_gpu is a test as others are.
    """
    gtest = ["@system//:absl", "@system//:gmock", "@system//:gtest", "@system//:gtest_main"]
    real_tags = ["cuda"] + (["gpu"] if needs_gpu else []) + ([] if always_linked or not needs_gpu else ["manual"])
    for runtime, more_tags in ([("standin", ["cuda"])] if standin else []) + ([("gpu", real_tags)] if gpu else []):
        native.cc_test(
            name = name + "_" + runtime,
            size = size,
            srcs = srcs,
            copts = _COPTS + ["-O1"],
            linkopts = _library_folders(runtime),
            tags = tags + more_tags,
            target_compatible_with = NEEDS_CUDA,
            linkstatic = True,  # the runtime's static library is not shared by libraries of ours
            deps = deps + [_CUDA_LIBRARIES[library][runtime] for library in libraries] +
                   ["//device/standin/testing:cuda_test_" + runtime] + gtest,
            **kwargs
        )
