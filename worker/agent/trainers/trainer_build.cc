#include "worker/agent/trainers/trainer_build.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/digest.h"
#include "common/gpu_standin.h"
#include "common/status_macros.h"
#include "worker/agent/machine/descriptor.h"

namespace strata::worker {
namespace {

constexpr size_t kBuildDigits = 16;
// Above all numbers that a trainer finds its own descriptors under.
constexpr int kPinnedFrom = 128;

struct Pinned {
  TrainerProgram program;
  Descriptor file;
};

std::string NameFor(const std::string& device) {
  if (device.empty() || device == "cpu") return "strata-trainer";
  return common::UsesGpuStandin() ? "strata-trainer-standin" : "strata-trainer-gpu";
}

absl::StatusOr<std::string> TrainerPath(const std::string& name) {
  char own[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", own, sizeof(own));
  if (size <= 0 || size == sizeof(own)) {
    return absl::InternalError("/proc/self/exe cannot be read: where is strata-trainer?");
  }
  const std::string path(own, static_cast<size_t>(size));
  return absl::StrCat(path.substr(0, path.rfind('/') + 1), name);
}

absl::StatusOr<std::string> DigestOfFile(int file, const std::string& path) {
  common::Digester digester;
  std::string bytes(64 << 10, '\0');
  for (off_t at = 0;;) {
    const ssize_t size = pread(file, bytes.data(), bytes.size(), at);
    if (size < 0) return absl::InternalError(absl::StrCat(path, ": ", strerror(errno)));
    if (size == 0) return digester.Finish().substr(0, kBuildDigits);
    digester.Add(bytes.data(), static_cast<size_t>(size));
    at += size;
  }
}

absl::StatusOr<Pinned> Pin(const std::string& name) {
  ASSIGN_OR_RETURN(const std::string path, TrainerPath(name));
  const Descriptor found(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!found.is_open()) {
    const bool of_cuda = name != NameFor("cpu");
    return absl::NotFoundError(absl::StrCat(
        path, ": ", strerror(errno),
        of_cuda ? " — jobs on GPUs need it (./dev build --cuda makes it); without a GPU, "
                  "STRATA_GPU_STANDIN=1 runs its kernels on the CPU, to prove them, slowly"
                : ""));
  }
  Pinned pinned;
  pinned.file = Descriptor(fcntl(found.get(), F_DUPFD_CLOEXEC, kPinnedFrom));
  if (!pinned.file.is_open()) return absl::InternalError(absl::StrCat(path, ": ", strerror(errno)));
  pinned.program.path = path;
  pinned.program.executable = absl::StrCat("/proc/self/fd/", pinned.file.get());
  ASSIGN_OR_RETURN(pinned.program.build, DigestOfFile(pinned.file.get(), path));
  return pinned;
}

}  // namespace

absl::StatusOr<TrainerProgram> PinnedTrainer(const std::string& device) {
  static std::mutex mutex;
  static std::map<std::string, Pinned> pinned;  // for the process's life
  const std::lock_guard lock(mutex);
  const std::string name = NameFor(device);
  auto found = pinned.find(name);
  if (found == pinned.end()) {
    ASSIGN_OR_RETURN(Pinned made, Pin(name));
    found = pinned.emplace(name, std::move(made)).first;
  }
  return found->second.program;
}

}  // namespace strata::worker
