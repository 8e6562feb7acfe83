// A rank's part in checkpoints: writes its ranges while the next step runs, says when they are on
// disk, and (rank 0) commits.
#ifndef STRATA_WORKER_TRAINER_CHECKPOINTING_H_
#define STRATA_WORKER_TRAINER_CHECKPOINTING_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "checkpoint/writer.h"
#include "worker/trainer/commit_queue.h"
#include "worker/trainer/control.h"

namespace strata::worker {

// Used on the thread that runs steps.
class Checkpointing {
 public:
  // `commits` is null on ranks that do not commit. Pointers are borrowed.
  Checkpointing(const v1::TrainerTask& task, Control* control, CommitQueue* commits,
                checkpoint::FileSystem* files);

  // Starts to write; `items` must keep their contents until AtGate has returned.
  absl::Status Begin(const checkpoint::CheckpointInfo& info,
                     std::vector<checkpoint::SnapshotItem> items);
  // The state is about to change: waits for the writing in progress, and tells of it.
  absl::Status AtGate();
  // All that was begun is written and, on rank 0, committed.
  absl::Status Finish();
  // The newest step for which writing was begun; 0: none.
  int64_t newest_step() const { return newest_step_; }

 private:
  Control* const control_;
  CommitQueue* const commits_;
  const int64_t keep_;
  checkpoint::AsyncWriter writer_;
  std::vector<checkpoint::SnapshotItem> items_;  // of the writing in progress
  int64_t newest_step_ = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_CHECKPOINTING_H_
