#include "worker/agent/directory_lock.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace strata::worker {
namespace {

constexpr int kLookAgainMs = 50;

// Whom the file names: the process that took the lock last.
std::string HolderOf(int file) {
  char text[32] = {};
  const ssize_t size = pread(file, text, sizeof(text) - 1, 0);
  const std::string pid(absl::StripAsciiWhitespace(absl::string_view(text, size > 0 ? size : 0)));
  return pid.empty() ? "" : absl::StrCat(" (started by process ", pid, ")");
}

}  // namespace

absl::StatusOr<DirectoryLock> DirectoryLock::Acquire(const std::string& directory,
                                                     double patience_seconds,
                                                     const common::Clock& clock) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return absl::InvalidArgumentError(absl::StrCat(directory, ": ", error.message()));
  const std::string path = absl::StrCat(directory, "/.lock");
  Descriptor file(open(path.c_str(), O_RDWR | O_CREAT, 0644));  // inherited, see the header
  if (!file.is_open()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  const double end = clock.Now() + patience_seconds;
  while (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::strerror(errno)));
    }
    if (clock.Now() >= end) {
      return absl::InvalidArgumentError(
          absl::StrCat(directory, ": another run is using it", HolderOf(file.get()),
                       " — wait until that ends, or choose another directory"));
    }
    poll(nullptr, 0, kLookAgainMs);
  }
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(file.get(), 0) != 0 ||
      pwrite(file.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  return DirectoryLock(std::move(file));
}

}  // namespace strata::worker
