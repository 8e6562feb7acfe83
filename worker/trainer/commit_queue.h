// Rank 0's part of making checkpoints real: commits wait here for the agent's word that all ranks
// have written, and are done in a thread of their own, so that neither the steps nor the control
// socket wait for the disk.
#ifndef STRATA_WORKER_TRAINER_COMMIT_QUEUE_H_
#define STRATA_WORKER_TRAINER_COMMIT_QUEUE_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "checkpoint/committer.h"
#include "proto/strata/v1/trainer.pb.h"

namespace strata::worker {

class CommitQueue {
 public:
  // At most so many checkpoints are written and not yet committed.
  static constexpr size_t kMaxWaiting = 2;
  // Makes a checkpoint real: checkpoint::Committer::Commit.
  using Commit =
      std::function<absl::StatusOr<checkpoint::Published>(const checkpoint::CommitRequest&)>;
  // `cleanup`: whether older checkpoints could be deleted.
  using OnCommitted =
      std::function<void(const v1::CheckpointCommitted&, const absl::Status& cleanup)>;

  // Both are called on the queue's own thread.
  CommitQueue(Commit commit, OnCommitted on_committed);
  // Drops what waits; a commit in progress is finished.
  ~CommitQueue();
  CommitQueue(const CommitQueue&) = delete;
  CommitQueue& operator=(const CommitQueue&) = delete;

  // The training loop: a checkpoint is about to be written. Blocks while kMaxWaiting are on their
  // way. The first failure of a commit, or Cancelled.
  absl::Status Announce(const checkpoint::CheckpointInfo& info, int64_t keep);
  // The agent's word. Never blocks.
  void Complete(const v1::CommitCheckpoint& command);
  // Blocks until all that were announced are committed. Errors as Announce.
  absl::Status WaitForAll();
  // Whatever waits, or will, returns Cancelled.
  void Cancel();

 private:
  struct Waiting {
    checkpoint::CommitRequest request;
    bool complete = false;
    absl::Status problem;  // of the fragments
  };
  void Work();
  absl::Status Wait(size_t most);

  const Commit commit_;
  const OnCommitted on_committed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, Waiting> waiting_;  // by step; the one being committed included
  absl::Status status_;
  bool stop_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_COMMIT_QUEUE_H_
