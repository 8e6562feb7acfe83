#include "worker/agent/machine/directory_lock.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/small_file.h"
#include "common/status_macros.h"

namespace strata::worker {
namespace {

constexpr int kLookAgainMs = 50;
constexpr int kLooksAtShared = 6;
// Above the numbers that trainers find their own descriptors under.
constexpr int kLeastNumber = 16;

absl::StatusOr<Descriptor> OpenLock(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return common::FileError(directory, "create", error.value());
  const std::string path = absl::StrCat(directory, "/.lock");
  const Descriptor opened(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!opened.is_open()) return common::FileError(path, "open", errno);
  Descriptor file(fcntl(opened.get(), F_DUPFD_CLOEXEC, kLeastNumber));
  if (!file.is_open()) return common::FileError(path, "fcntl", errno);
  return file;
}

// False: somebody else holds it. Unimplemented: the file system keeps no locks.
absl::StatusOr<bool> TryLock(int file, int operation, const std::string& directory) {
  while (flock(file, operation | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (DirectoryLock::IsUnsupported(errno)) {
      return absl::UnimplementedError(
          absl::StrCat(directory, ": its file system keeps no locks (", strerror(errno), ")"));
    }
    if (errno != EINTR) return common::FileError(absl::StrCat(directory, "/.lock"), "flock", errno);
  }
  return true;
}

// Whom the file names: the one who took the lock last.
std::string HolderOf(int file) {
  char text[256] = {};
  const ssize_t size = pread(file, text, sizeof(text) - 1, 0);
  return std::string(absl::StripAsciiWhitespace(absl::string_view(text, size > 0 ? size : 0)));
}

absl::Status SetHolder(int file, const std::string& holder, const std::string& directory) {
  const std::string line = absl::StrCat(holder, "\n");
  if (ftruncate(file, 0) != 0 ||
      pwrite(file, line.data(), line.size(), 0) != static_cast<ssize_t>(line.size())) {
    return common::FileError(absl::StrCat(directory, "/.lock"), "write", errno);
  }
  return absl::OkStatus();
}

absl::Status Held(int file, const std::string& directory) {
  const std::string holder = HolderOf(file);
  return absl::InvalidArgumentError(
      absl::StrCat(directory, ": another run or job is using it",
                   holder.empty() ? "" : absl::StrCat(" (", holder, ")"),
                   " — wait until that ends, or choose another directory"));
}

}  // namespace

bool DirectoryLock::IsUnsupported(int error) {
  return error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP;
}

absl::StatusOr<DirectoryLock> DirectoryLock::Acquire(const std::string& directory,
                                                     double patience_seconds,
                                                     const common::Clock& clock) {
  ASSIGN_OR_RETURN(Descriptor file, OpenLock(directory));
  const double end = clock.Now() + patience_seconds;
  for (;;) {
    ASSIGN_OR_RETURN(const bool locked, TryLock(file.get(), LOCK_EX, directory));
    if (locked) break;
    if (clock.Now() >= end) return Held(file.get(), directory);
    poll(nullptr, 0, kLookAgainMs);
  }
  RETURN_IF_ERROR(SetHolder(file.get(), absl::StrCat("started by process ", getpid()), directory));
  return DirectoryLock(std::move(file));
}

absl::StatusOr<DirectoryLock> DirectoryLock::AcquireForJob(const std::string& directory,
                                                           const std::string& job) {
  ASSIGN_OR_RETURN(Descriptor file, OpenLock(directory));
  const absl::StatusOr<bool> alone = TryLock(file.get(), LOCK_EX, directory);
  if (absl::IsUnimplemented(alone.status())) {
    std::fprintf(stderr, "strata-worker: %s: the controller alone keeps other jobs out of it\n",
                 std::string(alone.status().message()).c_str());
    return DirectoryLock(std::move(file));
  }
  RETURN_IF_ERROR(alone.status());
  if (*alone) RETURN_IF_ERROR(SetHolder(file.get(), job, directory));
  // Another node of this job may be at the lines above.
  bool shared = false;
  for (int i = 0; i < kLooksAtShared && !shared; ++i) {
    if (i > 0) poll(nullptr, 0, kLookAgainMs);
    ASSIGN_OR_RETURN(shared, TryLock(file.get(), LOCK_SH, directory));
  }
  if (!shared || HolderOf(file.get()) != job) return Held(file.get(), directory);
  return DirectoryLock(std::move(file));
}

}  // namespace strata::worker
