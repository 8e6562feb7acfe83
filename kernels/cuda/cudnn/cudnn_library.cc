#include "kernels/cuda/cudnn/cudnn_library.h"

#include <dlfcn.h>
#include <link.h>

#include <climits>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::kernels::cuda {
namespace {

void* Open(const std::string& file) { return dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL); }

// The library opens its part for graphs at the first call, and ends the process where there is
// none: it is opened here first, in the library's folder or where the loader looks.
absl::Status OpenGraphPart(void* library) {
  constexpr char kPart[] = "libcudnn_graph.so.9";
  char folder[PATH_MAX] = "";
  if (dlinfo(library, RTLD_DI_ORIGIN, folder) == 0 &&
      Open(absl::StrCat(folder, "/", kPart)) != nullptr) {
    return absl::OkStatus();
  }
  if (Open(kPart) != nullptr) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("cuDNN in ", folder, ": ", dlerror()));
}

}  // namespace

absl::StatusOr<void*> OpenCudnnLibrary(const std::string& file) {
  void* const library = Open(file);
  if (library == nullptr) return absl::NotFoundError(absl::StrCat("cuDNN: ", dlerror()));
  RETURN_IF_ERROR(OpenGraphPart(library));
  return library;
}

absl::StatusOr<int64_t> CudnnVersion(const std::string& file) {
  ASSIGN_OR_RETURN(void* const library, OpenCudnnLibrary(file));
  void* const version = dlsym(library, "cudnnGetVersion");
  if (version == nullptr) return absl::NotFoundError(absl::StrCat("cuDNN: ", dlerror()));
  return static_cast<int64_t>(reinterpret_cast<size_t (*)()>(version)());
}

}  // namespace strata::kernels::cuda
