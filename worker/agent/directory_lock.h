// One run at a time per directory.
#ifndef STRATA_WORKER_AGENT_DIRECTORY_LOCK_H_
#define STRATA_WORKER_AGENT_DIRECTORY_LOCK_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "worker/agent/descriptor.h"

namespace strata::worker {

// Holds DIRECTORY/.lock (flock) until destruction. Processes started meanwhile inherit the lock and
// hold it as well, so that a directory is free only when the trainers of a killed agent are gone
// too.
class DirectoryLock {
 public:
  // Makes the directory where it is missing. Waits up to `patience_seconds` for a holder that is
  // just ending. InvalidArgument: it cannot be made, or another run holds it, named by its process.
  static absl::StatusOr<DirectoryLock> Acquire(const std::string& directory,
                                               double patience_seconds, const common::Clock& clock);

 private:
  explicit DirectoryLock(Descriptor file) : file_(std::move(file)) {}

  Descriptor file_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_DIRECTORY_LOCK_H_
