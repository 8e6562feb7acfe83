"""C++ code from .proto files with the distribution's protoc and gRPC plugin."""

def _generate(name, srcs, stems, ends, flags):
    outs = [stem + end for stem in stems for end in ends]
    native.genrule(
        name = name + "_gen",
        srcs = srcs,
        outs = outs,
        cmd = "/usr/bin/protoc -I. -I/usr/include %s %s" % (
            flags,
            " ".join(["%s/%s.proto" % (native.package_name(), stem) for stem in stems]),
        ),
        message = "Generating",
    )
    return outs

def _generated_library(name, outs, deps, visibility):
    native.cc_library(
        name = name,
        srcs = [o for o in outs if o.endswith(".cc")],
        hdrs = [o for o in outs if o.endswith(".h")],
        copts = ["-w", "-O1"],  # generated code is not held to our warnings
        deps = deps,
        visibility = visibility,
    )

def strata_proto_library(name, srcs, deps = [], grpc = False, visibility = None):
    """A cc_library NAME with the messages of all `srcs`; with `grpc`, NAME_grpc with their services.

    `deps` are other proto targets. Every one also has a filegroup NAME_srcs, which imports need.
    """
    stems = [s[:-len(".proto")] for s in srcs]
    native.filegroup(name = name + "_srcs", srcs = srcs + [d + "_srcs" for d in deps], visibility = visibility)
    messages = _generate(name, [name + "_srcs"], stems, [".pb.h", ".pb.cc"], "--cpp_out=$(GENDIR)")
    _generated_library(name, messages, deps + ["@system//:protobuf"], visibility)
    if grpc:
        services = _generate(
            name + "_grpc",
            [name + "_srcs"],
            stems,
            [".grpc.pb.h", ".grpc.pb.cc"],
            "--grpc_out=$(GENDIR) --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin",
        )
        _generated_library(name + "_grpc", services, [name, "@system//:grpc"], visibility)
