"""C++ code from .proto files with the distribution's protoc and gRPC plugin."""

def strata_proto_library(name, srcs, deps = [], grpc = False, visibility = None):
    """One cc_library NAME with the generated code of all `srcs`; other proto targets in `deps`.

    Every proto target also has a filegroup NAME_srcs, which imports need.
    """
    package = native.package_name()
    stems = [s[:-len(".proto")] for s in srcs]
    outs = [stem + end for stem in stems for end in [".pb.h", ".pb.cc"]]
    flags = "--cpp_out=$(GENDIR)"
    if grpc:
        outs += [stem + end for stem in stems for end in [".grpc.pb.h", ".grpc.pb.cc"]]
        flags += " --grpc_out=$(GENDIR) --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin"
    native.filegroup(name = name + "_srcs", srcs = srcs + [d + "_srcs" for d in deps], visibility = visibility)
    native.genrule(
        name = name + "_gen",
        srcs = [":" + name + "_srcs"],
        outs = outs,
        cmd = "/usr/bin/protoc -I. -I/usr/include %s %s" % (flags, " ".join([package + "/" + s for s in srcs])),
        message = "Generating",
    )
    native.cc_library(
        name = name,
        srcs = [o for o in outs if o.endswith(".cc")],
        hdrs = [o for o in outs if o.endswith(".h")],
        copts = ["-w"],  # generated code is not held to our warnings
        deps = deps + (["@system//:grpc"] if grpc else []) + ["@system//:protobuf"],
        visibility = visibility,
    )
