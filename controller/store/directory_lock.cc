#include "controller/store/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::controller {
namespace {

absl::Status Failed(const std::string& path, const char* action) {
  return absl::InternalError(absl::StrCat(path, ": ", std::strerror(errno), " (", action, ")"));
}

// Makes the name of a new folder durable, as its contents will be.
absl::Status SyncFolder(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    return errno == EACCES ? absl::OkStatus() : Failed(folder, "open");  // not ours to make either
  }
  const int result = fsync(descriptor);
  const int error = errno;
  close(descriptor);
  errno = error;
  return result == 0 || errno == EINVAL ? absl::OkStatus() : Failed(folder, "fsync");
}

// The process id that the holder wrote; 0 when it has not written one yet.
int HolderOf(int descriptor) {
  char text[32] = {};
  const ssize_t size = pread(descriptor, text, sizeof(text) - 1, 0);
  int pid = 0;
  if (size <= 0 || !absl::SimpleAtoi(text, &pid)) return 0;
  return pid;
}

}  // namespace

absl::StatusOr<DirectoryLock> DirectoryLock::Take(const std::string& directory) {
  std::error_code error;
  const bool known = std::filesystem::exists(directory, error);
  std::filesystem::create_directories(directory, error);
  // Records tell where every job's data lies: nobody else's to read.
  if (!known && !error) {
    std::filesystem::permissions(directory, std::filesystem::perms::owner_all, error);
  }
  if (error) {
    return absl::InternalError(absl::StrCat(directory, ": ", error.message(), " (mkdir)"));
  }
  RETURN_IF_ERROR(SyncFolder(std::filesystem::absolute(directory).parent_path().string()));
  const std::string path = directory + "/controller.lock";
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return Failed(path, "open");
  DirectoryLock lock(descriptor);
  int result = 0;
  do {
    result = flock(descriptor, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result != 0 && errno == EWOULDBLOCK) {
    const int holder = HolderOf(descriptor);
    return absl::FailedPreconditionError(
        absl::StrCat(directory, " is in use by another controller",
                     holder > 0 ? absl::StrCat(" (process ", holder, ")") : std::string()));
  }
  if (result != 0) return Failed(path, "flock");
  // For people only: a disk that is full does not take the lock away.
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(descriptor, 0) == 0) {
    static_cast<void>(!pwrite(descriptor, pid.data(), pid.size(), 0));
  }
  return lock;
}

DirectoryLock::~DirectoryLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace strata::controller
