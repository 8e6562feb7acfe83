"""Targets with CUDA code: built with --config=cuda (./dev build --cuda), skipped without it."""

load("@cuda//:toolkit.bzl", "ROOT", "VERSION")

_ARCHITECTURES = ["80", "86", "89", "90a", "100a", "121"]

# What a target with CUDA says of itself: incompatible, thus skipped by //..., unless the configuration is there.
NEEDS_CUDA = select({
    "//bazel:cuda": [],
    "//conditions:default": ["@platforms//:incompatible"],
})

ArchitecturesInfo = provider("Of --//bazel:cuda_architectures.", fields = ["names"])

def _cuda_architectures_impl(context):
    names = context.build_setting_value
    for name in names:
        if name not in _ARCHITECTURES:
            fail("--//bazel:cuda_architectures: %s is none of %s" % (name, ", ".join(_ARCHITECTURES)))
    return [ArchitecturesInfo(names = names)]

# Each gives machine code and PTX.
cuda_architectures = rule(
    implementation = _cuda_architectures_impl,
    build_setting = config.string_list(flag = True),
)

def _generate_code(names):
    return ["-gencode=arch=compute_%s,code=[sm_%s,compute_%s]" % (name, name, name) for name in names]

def _cuda_objects_impl(context):
    if not ROOT:
        fail("%s needs nvcc: ./dev setup --cuda" % context.label)
    headers = depset(
        context.files.hdrs,
        transitive = [dep[CcInfo].compilation_context.headers for dep in context.attr.deps],
    )
    objects = []
    for source in context.files.srcs:
        object = context.actions.declare_file("_cuda/%s/%s.o" % (context.label.name, source.basename))
        arguments = context.actions.args()
        arguments.add_all(["-std=c++20", "-O3", "-lineinfo", "--no-compress", "-I.", "-ccbin=g++"])
        arguments.add_all(["-Werror=all-warnings", "-Xcompiler=-fPIC,-Wall,-Wextra,-Werror,-fno-omit-frame-pointer"])
        arguments.add_all(_generate_code(context.attr._architectures[ArchitecturesInfo].names))
        arguments.add_all(context.attr.copts)
        arguments.add_all(["-c", source.path, "-o", object])
        context.actions.run(
            executable = ROOT + "/bin/nvcc",
            arguments = [arguments],
            inputs = depset([source], transitive = [headers]),
            outputs = [object],
            # The version makes objects of another toolkit other objects.
            env = {"PATH": "/usr/bin:/bin", "STRATA_CUDA_VERSION": VERSION},
            mnemonic = "Nvcc",
            progress_message = "Compiling %s" % source.short_path,
        )
        objects.append(object)
    return [DefaultInfo(files = depset(objects))]

_cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"]),
        "hdrs": attr.label_list(allow_files = [".h", ".cuh"]),
        "deps": attr.label_list(providers = [CcInfo]),
        "copts": attr.string_list(),
        "_architectures": attr.label(default = "//bazel:cuda_architectures"),
    },
)

def cuda_objects(name, srcs, hdrs, deps, copts, testonly):
    """The .o files of .cu sources, by nvcc with g++ as the host's compiler."""
    _cuda_objects(
        name = name,
        srcs = srcs,
        hdrs = hdrs,
        copts = copts,
        testonly = testonly,
        target_compatible_with = NEEDS_CUDA,
        deps = deps,
    )
