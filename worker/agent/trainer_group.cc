#include "worker/agent/trainer_group.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/agent/trainer_build.h"

namespace strata::worker {
absl::StatusOr<TrainerGroup> TrainerGroup::Start(const Options& options) {
  ASSIGN_OR_RETURN(const TrainerProgram program, PinnedTrainer());
  TrainerGroup group;
  for (const int rank : options.ranks) {
    TrainerStart start;
    start.name = program.path;
    start.executable = program.executable;
    start.arguments = {"--rank", absl::StrCat(rank)};
    if (!options.job_directory.empty()) {
      start.arguments.insert(start.arguments.end(), {"--dir", options.job_directory});
    }
    if (options.progress_path) start.progress_path = options.progress_path(rank);
    if (options.log_path) start.log_path = options.log_path(rank);
    start.locks = options.locks;
    ASSIGN_OR_RETURN(std::unique_ptr<TrainerProcess> trainer, TrainerProcess::Start(start));
    group.ranks_.push_back(rank);
    group.trainers_.push_back(std::move(trainer));
  }
  return group;
}

TrainerGroup::TrainerGroup(std::vector<int> ranks,
                           std::vector<std::unique_ptr<TrainerProcess>> trainers)
    : ranks_(std::move(ranks)), trainers_(std::move(trainers)) {}

void TrainerGroup::Send(int place, const v1::TrainerCommand& command) {
  if (trainers_[place]->connected()) {
    static_cast<void>(trainers_[place]->sender().Send(command));
  }
}

void TrainerGroup::SendAll(const v1::TrainerCommand& command) {
  for (int place = 0; place < size(); ++place) Send(place, command);
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
  for (const auto& trainer : trainers_) {
    if (!trainer->reaped()) return false;
  }
  return true;
}

}  // namespace strata::worker
