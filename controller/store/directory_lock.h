// One controller per directory: an advisory lock that the kernel drops when its holder dies.
#ifndef STRATA_CONTROLLER_STORE_DIRECTORY_LOCK_H_
#define STRATA_CONTROLLER_STORE_DIRECTORY_LOCK_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace strata::controller {

class DirectoryLock {
 public:
  // Makes the directory when it is missing and takes DIRECTORY/controller.lock (flock).
  // FailedPrecondition, naming the holder's process id: another process has it. Internal: the
  // directory or the file cannot be made.
  static absl::StatusOr<DirectoryLock> Take(const std::string& directory);

  DirectoryLock(DirectoryLock&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)) {}
  DirectoryLock& operator=(DirectoryLock&&) = delete;
  ~DirectoryLock();

 private:
  explicit DirectoryLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_STORE_DIRECTORY_LOCK_H_
