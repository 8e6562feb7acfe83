// The trainers of this process in its poll loop.
#ifndef STRATA_WORKER_AGENT_TRAINERS_TRAINER_POLL_H_
#define STRATA_WORKER_AGENT_TRAINERS_TRAINER_POLL_H_

#include <poll.h>
#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "worker/agent/trainers/trainer_process.h"

namespace strata::worker {

// Outlives its trainers, which enter and leave it by themselves. Used by one thread.
class TrainerPoll {
 public:
  // `stack_reader`: the program that reads its trainers' stacks (process_stack.h); empty: none.
  explicit TrainerPoll(std::string stack_reader = "") : stack_reader_(std::move(stack_reader)) {}
  const std::string& stack_reader() const { return stack_reader_; }

  void Add(TrainerProcess* trainer) { trainers_.push_back(trainer); }
  void Remove(TrainerProcess* trainer) { std::erase(trainers_, trainer); }
  // Null: none of these that lives.
  TrainerProcess* Find(pid_t pid) const;

  // As TrainerProcess's, for all of them.
  void AddTo(std::vector<pollfd>& waiting, bool hear);
  void Handle(const pollfd* found);

 private:
  const std::string stack_reader_;
  std::vector<TrainerProcess*> trainers_;
  std::vector<TrainerProcess*> polled_;  // by the last AddTo, which may be gone since
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_TRAINERS_TRAINER_POLL_H_
