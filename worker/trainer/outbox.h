// What a trainer has to tell its agent: events in order, numbered, until the agent has them.
//
// Without a lease an event is forgotten once its bytes are with the socket. With one it is kept
// until the agent acknowledges it, so that it can be said again on another connection; and what an
// agent that has just started must know of this trainer is kept longer (trainer.proto).
#ifndef STRATA_WORKER_TRAINER_OUTBOX_H_
#define STRATA_WORKER_TRAINER_OUTBOX_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/strata/v1/trainer.pb.h"

namespace strata::worker {

// Used under its owner's lock.
class Outbox {
 public:
  // Much is waiting: whoever can wait waits before adding more.
  static constexpr size_t kFullBytes = size_t{4} << 20;
  // Rank 0 has at most two checkpoints on their way, so files of more are not asked for again.
  static constexpr size_t kWrittenKept = 4;

  // From now on what is added is kept until acknowledged.
  void SetLeased() { leased_ = true; }

  // InvalidArgument: larger than a frame.
  absl::Status Add(v1::TrainerEvent event);
  bool full() const { return kept_bytes_ + bytes_.size() >= kFullBytes; }
  // The agent has (leased), or the socket has, all of it.
  bool drained() const {
    return bytes_.empty() && next_ == events_.size() && (!leased_ || settled());
  }

  // Bytes for the present connection; empty: none.
  absl::string_view Bytes();
  void Sent(size_t size);

  // A new connection begins: hello, then what must be repeated.
  void Rewind(const v1::TrainerHello& hello);
  void Acknowledge(uint64_t sequence);
  // The agent's answer on that step's record is here: it need not be asked for again.
  void Answered(int64_t step);

 private:
  struct Event {
    uint64_t sequence = 0;
    v1::TrainerEvent::EventCase kind = v1::TrainerEvent::EVENT_NOT_SET;
    int64_t step = 0;  // of written and record
    std::string frame;
  };
  bool settled() const { return events_.empty(); }
  void Remember(Event event);

  bool leased_ = false;
  uint64_t last_ = 0;             // sequence
  int64_t answered_ = 0;          // step
  std::deque<Event> remembered_;  // acknowledged, and yet to be repeated
  std::deque<Event> events_;      // in order; without a lease only what is not in bytes_
  size_t next_ = 0;               // in events_: not yet in bytes_
  size_t kept_bytes_ = 0;         // of events_
  std::string bytes_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_OUTBOX_H_
