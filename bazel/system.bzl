"""@system: the libraries of the distribution, one cc_library each, link flags from pkg-config."""

# name: (pkg-config packages, or None) , further link flags
_LIBRARIES = {
    # All of Abseil that Strata uses; static order does not matter for shared objects.
    "absl": ("absl_status absl_statusor absl_strings absl_str_format absl_flat_hash_map absl_flat_hash_set " +
             "absl_synchronization absl_time absl_span absl_cleanup absl_inlined_vector absl_any_invocable", ""),
    "benchmark": ("benchmark", ""),
    "cli11": (None, ""),
    "dnnl": (None, "-ldnnl -lgomp"),
    "dw": (None, "-ldw"),
    "gmock": ("gmock", ""),
    "grpc": ("grpc++", "-lgrpc++_reflection"),
    "gtest": ("gtest", ""),
    "gtest_main": ("gtest_main", ""),
    "hwloc": ("hwloc", ""),
    "json": (None, ""),
    "munge": ("munge", ""),
    "openssl": ("libcrypto libssl", ""),
    "prometheus": (None, "-lprometheus-cpp-core"),
    "pcre2": ("libpcre2-8", ""),
    "protobuf": ("protobuf", ""),
    "sqlite": ("sqlite3", ""),
    "ucx": (None, "-lucp -luct -lucs"),
    "uring": ("liburing", ""),
    "utf8proc": ("libutf8proc", ""),
    "xxhash": ("libxxhash", ""),
    "yaml": ("yaml-cpp", ""),
    "zlib": ("zlib", ""),
    "zstd": ("libzstd", ""),
}

def _link_flags(repository, packages):
    # Everything is in the default search path, so a package that misses its .pc file shows up at link time.
    result = repository.execute(["pkg-config", "--libs"] + packages.split(" "))
    if result.return_code != 0:
        return None
    return result.stdout.strip().split(" ")

def _system_libraries_impl(repository):
    lines = ['package(default_visibility = ["//visibility:public"])\n']
    for name, (packages, extra) in _LIBRARIES.items():
        flags = _link_flags(repository, packages) if packages else []
        if flags == None:
            continue  # not installed: whoever depends on it gets "no such target @system//:NAME"
        flags = [f for f in flags if f.startswith("-l") or f.startswith("-L")] + [f for f in extra.split(" ") if f]
        lines.append('cc_library(name = "%s", linkopts = %s)\n' % (name, repr(flags)))
    repository.file("BUILD.bazel", "\n".join(lines))

system_libraries = repository_rule(
    implementation = _system_libraries_impl,
    local = True,
    doc = "Headers are found in /usr/include; only link flags differ.",
)
