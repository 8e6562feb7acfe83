// DIR/.epoch-E: what one start of a job's ranks writes for itself (step records, progress files).
#ifndef STRATA_WORKER_AGENT_MACHINE_EPOCH_FOLDER_H_
#define STRATA_WORKER_AGENT_MACHINE_EPOCH_FOLDER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace strata::worker {

// The greatest epoch that the directory has a folder of; 0 without any.
int64_t NewestEpoch(const std::string& directory);

// The folder of an epoch that was made. FailedPrecondition: it is gone, for a later one was made
// since: what is published is that one's.
absl::StatusOr<std::string> FindEpochFolder(const std::string& directory, int64_t epoch);

// Makes the folder of an epoch (and the directory), and removes those of earlier epochs: what they
// wrote and counts was published. InvalidArgument names a path that cannot be made.
absl::StatusOr<std::string> MakeEpochFolder(const std::string& directory, int64_t epoch);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_MACHINE_EPOCH_FOLDER_H_
