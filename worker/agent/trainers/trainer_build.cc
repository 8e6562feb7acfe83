#include "worker/agent/trainers/trainer_build.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/digest.h"
#include "common/status_macros.h"
#include "worker/agent/machine/descriptor.h"

namespace strata::worker {
namespace {

constexpr char kTrainerName[] = "strata-trainer";
constexpr size_t kBuildDigits = 16;
// Above all numbers that a trainer finds its own descriptors under.
constexpr int kPinnedFrom = 128;

struct Pinned {
  TrainerProgram program;
  Descriptor file;
};

absl::StatusOr<std::string> TrainerPath() {
  char own[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", own, sizeof(own));
  if (size <= 0 || size == sizeof(own)) {
    return absl::InternalError("/proc/self/exe cannot be read: where is strata-trainer?");
  }
  const std::string path(own, static_cast<size_t>(size));
  return absl::StrCat(path.substr(0, path.rfind('/') + 1), kTrainerName);
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

absl::StatusOr<Pinned> Pin() {
  ASSIGN_OR_RETURN(const std::string path, TrainerPath());
  const Descriptor found(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!found.is_open()) return absl::NotFoundError(absl::StrCat(path, ": ", strerror(errno)));
  Pinned pinned;
  pinned.file = Descriptor(fcntl(found.get(), F_DUPFD_CLOEXEC, kPinnedFrom));
  if (!pinned.file.is_open()) return absl::InternalError(absl::StrCat(path, ": ", strerror(errno)));
  pinned.program.path = path;
  pinned.program.executable = absl::StrCat("/proc/self/fd/", pinned.file.get());
  ASSIGN_OR_RETURN(pinned.program.build, DigestOfFile(pinned.file.get(), path));
  return pinned;
}

}  // namespace

absl::StatusOr<TrainerProgram> PinnedTrainer() {
  static std::mutex mutex;
  static std::optional<Pinned> pinned;  // for the process's life
  const std::lock_guard lock(mutex);
  if (!pinned.has_value()) {
    ASSIGN_OR_RETURN(pinned, Pin());
  }
  return pinned->program;
}

}  // namespace strata::worker
