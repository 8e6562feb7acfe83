"""@cuda: the CUDA toolkit that ./dev setup --cuda installed, or the one in /usr/local/cuda, NCCL, and cuDNN's headers.

Without one the repository exists all the same, empty: targets that need CUDA are skipped unless --config=cuda asks
for them (//bazel:cuda.bzl), and then nvcc's absence is an error with its remedy.
"""

_BUILD = """
package(default_visibility = ["//visibility:public"])

# Headers, as system headers: nobody's warnings are ours to mend.
cc_library(
    name = "headers",
    hdrs = glob(["include/**"], allow_empty = True),
    includes = ["include"],
)

# The real runtime library.
cc_library(
    name = "cudart",
    srcs = glob(["lib/libcudart_static.a", "lib/libculibos.a"], allow_empty = True),
    linkopts = ["-ldl", "-lrt", "-lpthread"],
    deps = [":headers"],
)

# Of cuBLAS, the part that Strata calls: half a gigabyte, shared and found where the toolkit is.
cc_library(
    name = "cublaslt",
    srcs = glob(["lib/libcublasLt.so.*"], allow_empty = True),
    deps = [":headers"],
)

cc_library(
    name = "nccl_headers",
    hdrs = glob(["nccl/include/nccl.h"], allow_empty = True),
    includes = ["nccl/include"],
    deps = [":headers"],
)

# The real library.
cc_library(
    name = "nccl",
    srcs = glob(["nccl/lib/libnccl.so.2"], allow_empty = True),
    deps = [":nccl_headers"],
)

# cuDNN's graph API in C++, without the library: programs open it where it is.
cc_library(
    name = "cudnn_headers",
    hdrs = glob(["cudnn/include/*.h", "cudnn_frontend/include/**"], allow_empty = True),
    includes = ["cudnn/include", "cudnn_frontend/include"],
    deps = [":headers"],
)
"""

def _candidates(repository):
    environment = repository.os.environ
    if environment.get("STRATA_CUDA"):
        return [environment["STRATA_CUDA"]]
    return ["/usr/local/cuda", _cache(repository) + "/cuda/nvidia/cu13"]

def _cache(repository):
    environment = repository.os.environ
    return (environment.get("XDG_CACHE_HOME") or environment.get("HOME", "") + "/.cache") + "/strata"

# NCCL's header and library: within the toolkit, of the wheels, or the distribution's. Returns the library's folder.
def _link_nccl(repository, root):
    wheels = [path[:-len("cu13")] + "nccl" for path in _candidates(repository) if path.endswith("/cu13")]
    folders = [(path + "/include", path + "/lib") for path in [root] + wheels]
    for include, lib in folders + [("/usr/include", "/usr/lib/%s-linux-gnu" % cpu) for cpu in ["x86_64", "aarch64"]]:
        if repository.path(include + "/nccl.h").exists and repository.path(lib).exists:
            repository.symlink(include + "/nccl.h", "nccl/include/nccl.h")
            if repository.path(lib + "/libnccl.so.2").exists:
                repository.symlink(lib + "/libnccl.so.2", "nccl/lib/libnccl.so.2")
            return lib
    return None

# cuDNN's headers, of the toolkit or of the wheels, and its C++ API. Returns the library's folder.
def _link_cudnn(repository, root):
    frontend = _cache(repository) + "/cudnn_frontend/include"
    if repository.path(frontend).exists:
        repository.symlink(frontend, "cudnn_frontend/include")
    for folder in [root, _cache(repository) + "/cuda/nvidia/cudnn", "/usr"]:
        headers = _headers_of_cudnn(repository, folder + "/include")
        if headers:
            for header in headers:
                repository.symlink(header, "cudnn/include/" + header.basename)
            return folder + "/lib"
    return None

def _headers_of_cudnn(repository, folder):
    if not repository.path(folder + "/cudnn.h").exists:
        return []
    return [path for path in repository.path(folder).readdir() if path.basename.startswith("cudnn")]

def _cuda_toolkit_impl(repository):
    root, version, folders = "", "", []
    for candidate in _candidates(repository):
        if repository.path(candidate + "/bin/nvcc").exists:
            root = candidate
            version = repository.execute([candidate + "/bin/nvcc", "--version"]).stdout.strip().split("\n")[-1]
            break
    if root:
        repository.symlink(root + "/include", "include")
        lib = root + "/lib64" if repository.path(root + "/lib64").exists else root + "/lib"
        repository.symlink(lib, "lib")
        folders = [folder for folder in [lib, _link_nccl(repository, root), _link_cudnn(repository, root)] if folder]
    repository.file("BUILD.bazel", _BUILD)
    repository.file("toolkit.bzl", 'ROOT = "%s"\nVERSION = "%s"\nLIBRARY_FOLDERS = %s\n' % (root, version, folders))

cuda_toolkit = repository_rule(
    implementation = _cuda_toolkit_impl,
    environ = ["HOME", "STRATA_CUDA", "XDG_CACHE_HOME"],
    local = True,
)
