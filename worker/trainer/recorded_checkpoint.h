// The checkpoint that a controller names for its ranks to begin with.
#ifndef STRATA_WORKER_TRAINER_RECORDED_CHECKPOINT_H_
#define STRATA_WORKER_TRAINER_RECORDED_CHECKPOINT_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/reader.h"
#include "proto/strata/v1/trainer.pb.h"

namespace strata::worker {

// Opens it in the job's checkpoint directory: it is there, and its manifest is the one that was
// recorded. Errors are such that ProblemOf knows them. `files` outlives the checkpoint.
absl::StatusOr<std::unique_ptr<checkpoint::Checkpoint>> OpenRecorded(
    const std::string& directory, const v1::RecordedCheckpoint& recorded,
    checkpoint::FileSystem* files = checkpoint::PosixFileSystem());

// The same error, from reading that checkpoint, as one that ProblemOf knows: what is damaged
// (DataLoss) and what the storage failed to read (Unavailable). Anything else has another reason
// than the checkpoint and stays as it is.
absl::Status WithProblem(const std::string& directory, const v1::RecordedCheckpoint& recorded,
                         const absl::Status& status);

std::optional<v1::CheckpointProblem> ProblemOf(const absl::Status& status);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_RECORDED_CHECKPOINT_H_
