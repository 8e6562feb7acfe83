#include "worker/agent/logic/trainer_group.h"

#include <algorithm>

namespace strata::worker {

void TrainerGroup::SendAll(const v1::TrainerCommand& command) {
  for (const auto& trainer : trainers_) trainer->Send(command);
}

void TrainerGroup::EndAll(const std::string& reason) {
  v1::TrainerCommand command;
  command.mutable_end()->set_reason(reason);
  SendAll(command);
  for (const auto& trainer : trainers_) trainer->Hang();
}

void TrainerGroup::LetGo() {
  for (const auto& trainer : trainers_) trainer->LetGo();
}

void TrainerGroup::KillAll() {
  for (const auto& trainer : trainers_) trainer->Kill();
}

bool TrainerGroup::AllReaped() const {
  return std::all_of(trainers_.begin(), trainers_.end(),
                     [](const auto& trainer) { return trainer->reaped(); });
}

}  // namespace strata::worker
