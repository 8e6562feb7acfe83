// Where the control thread leaves the agent's word for a receiver that exists only for a while.
#ifndef STRATA_WORKER_TRAINER_MAILBOX_H_
#define STRATA_WORKER_TRAINER_MAILBOX_H_

#include <functional>
#include <mutex>
#include <utility>

#include "proto/strata/v1/trainer.pb.h"

namespace strata::worker {

// Any thread.
template <typename Message>
class Mailbox {
 public:
  using Receiver = std::function<void(const Message&)>;

  // Null: nobody listens. Does not return while the earlier receiver is being called.
  void SetReceiver(Receiver receiver) {
    const std::lock_guard<std::mutex> lock(mutex_);
    receiver_ = std::move(receiver);
  }
  void Deliver(const Message& message) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (receiver_) receiver_(message);
  }

 private:
  std::mutex mutex_;
  Receiver receiver_;
};

// What concerns checkpoints, for rank 0 while the job trains.
struct CheckpointMail {
  Mailbox<v1::CommitCheckpoint> commits;
  Mailbox<v1::CheckpointAnswer> answers;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_MAILBOX_H_
