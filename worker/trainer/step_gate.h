// Where the training loop asks before each step, so that all ranks stop after the same one
// (trainer.proto, StopRequest): a rank that was asked begins no step until it knows the greatest
// step that any rank is in, and then goes on up to that one.
#ifndef STRATA_WORKER_TRAINER_STEP_GATE_H_
#define STRATA_WORKER_TRAINER_STEP_GATE_H_

#include <condition_variable>
#include <cstdint>
#include <limits>
#include <mutex>

namespace strata::worker {

// Any thread.
class StepGate {
 public:
  // The training loop: the step about to begin. True: go on; false: stop here. Blocks between the
  // two halves of a stop.
  bool Enter(int64_t step);

  // The steps done before this start of the ranks.
  void SetStart(int64_t step);
  // First half: the step that the loop is in or has last finished.
  int64_t Ask();
  // Second half.
  void StopAfter(int64_t step);
  // No step begins any more.
  void Close();

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t current_ = 0;
  int64_t last_ = kNever;  // allowed
  bool asked_ = false;     // and not yet told
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_STEP_GATE_H_
