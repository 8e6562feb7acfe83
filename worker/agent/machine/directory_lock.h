// Who may write into a job's directories.
#ifndef STRATA_WORKER_AGENT_MACHINE_DIRECTORY_LOCK_H_
#define STRATA_WORKER_AGENT_MACHINE_DIRECTORY_LOCK_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "worker/agent/machine/descriptor.h"

namespace strata::worker {

// Holds DIRECTORY/.lock (flock) until destruction. Trainers that are given the descriptor hold it
// as well, so that a directory is free only when the trainers of a killed agent are gone too.
class DirectoryLock {
 public:
  // For one run alone. Makes the directory where it is missing. Waits up to `patience_seconds` for
  // a holder that is just ending. InvalidArgument: it cannot be made, or another one holds it,
  // named by its process or job.
  static absl::StatusOr<DirectoryLock> Acquire(const std::string& directory,
                                               double patience_seconds, const common::Clock& clock);
  // For all nodes and epochs of one job of a cluster: a frozen node must not keep the next epoch
  // from its directory. `job` names the job; InvalidArgument: a run, or another job, holds it.
  // Whose a directory is within a cluster the controller decides; so where the file system knows no
  // locks (Lustre mounted without them, some NFS) the job goes on without one, told on stderr.
  static absl::StatusOr<DirectoryLock> AcquireForJob(const std::string& directory,
                                                     const std::string& job);

  // Whether `error` (errno of flock) says that this file system keeps no locks.
  static bool IsUnsupported(int error);

  // To be handed to trainers; owned by this. Closes with an exec.
  int descriptor() const { return file_.get(); }

 private:
  explicit DirectoryLock(Descriptor file) : file_(std::move(file)) {}

  Descriptor file_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_MACHINE_DIRECTORY_LOCK_H_
