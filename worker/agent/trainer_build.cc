#include "worker/agent/trainer_build.h"

#include <unistd.h>

#include <climits>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/digest.h"

namespace strata::worker {
namespace {

constexpr char kTrainerName[] = "strata-trainer";
constexpr size_t kBuildDigits = 16;

}  // namespace

absl::StatusOr<std::string> TrainerBinary() {
  char own[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", own, sizeof(own));
  if (size <= 0 || size == sizeof(own)) {
    return absl::InternalError("/proc/self/exe cannot be read: where is strata-trainer?");
  }
  const std::string path(own, static_cast<size_t>(size));
  return absl::StrCat(path.substr(0, path.rfind('/') + 1), kTrainerName);
}

std::string TrainerBuild() {
  const absl::StatusOr<std::string> path = TrainerBinary();
  if (!path.ok()) return "";
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path->c_str(), "rbe"), std::fclose);
  if (file == nullptr) return "";
  common::Digester digester;
  char bytes[64 << 10];
  while (const size_t size = std::fread(bytes, 1, sizeof(bytes), file.get())) {
    digester.Add(bytes, size);
  }
  return std::ferror(file.get()) ? "" : digester.Finish().substr(0, kBuildDigits);
}

}  // namespace strata::worker
