#include "worker/agent/trainers/trainer_poll.h"

#include <algorithm>

namespace strata::worker {

TrainerProcess* TrainerPoll::Find(pid_t pid) const {
  const auto found = std::find_if(trainers_.begin(), trainers_.end(), [pid](const auto* trainer) {
    return !trainer->reaped() && trainer->pid() == pid;
  });
  return found == trainers_.end() ? nullptr : *found;
}

void TrainerPoll::AddTo(std::vector<pollfd>& waiting, bool hear) {
  polled_ = trainers_;
  for (const TrainerProcess* const trainer : polled_) trainer->AddTo(waiting, hear);
}

void TrainerPoll::Handle(const pollfd* found) {
  for (TrainerProcess* const trainer : polled_) {
    if (std::find(trainers_.begin(), trainers_.end(), trainer) != trainers_.end()) {
      trainer->Handle(found);
    }
    found += TrainerProcess::kPolled;
  }
}

}  // namespace strata::worker
