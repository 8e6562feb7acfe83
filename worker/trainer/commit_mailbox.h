// Where the control thread leaves the agent's word on checkpoints for a queue that exists only
// while the job trains.
#ifndef STRATA_WORKER_TRAINER_COMMIT_MAILBOX_H_
#define STRATA_WORKER_TRAINER_COMMIT_MAILBOX_H_

#include <functional>
#include <mutex>
#include <utility>

#include "proto/strata/v1/trainer.pb.h"

namespace strata::worker {

// Any thread.
class CommitMailbox {
 public:
  using Receiver = std::function<void(const v1::CommitCheckpoint&)>;

  // Null: nobody listens. Does not return while the earlier receiver is being called.
  void SetReceiver(Receiver receiver) {
    const std::lock_guard<std::mutex> lock(mutex_);
    receiver_ = std::move(receiver);
  }
  void Deliver(const v1::CommitCheckpoint& command) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (receiver_) receiver_(command);
  }

 private:
  std::mutex mutex_;
  Receiver receiver_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_COMMIT_MAILBOX_H_
