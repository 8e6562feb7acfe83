#include "worker/trainer/build_mark.h"

#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/digest.h"
#include "worker/shared/version.h"

namespace strata::worker {

absl::StatusOr<std::string> BuildMark() {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/proc/self/exe", "rbe"),
                                                   std::fclose);
  if (file == nullptr) return absl::InternalError("/proc/self/exe cannot be read");
  common::Digester digester;
  char bytes[64 << 10];
  while (const size_t size = std::fread(bytes, 1, sizeof(bytes), file.get())) {
    digester.Add(bytes, size);
  }
  if (std::ferror(file.get())) return absl::InternalError("/proc/self/exe cannot be read");
  return absl::StrCat(kVersion, "+", digester.Finish().substr(0, 16));
}

}  // namespace strata::worker
