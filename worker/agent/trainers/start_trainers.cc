#include "worker/agent/trainers/start_trainers.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/status_macros.h"
#include "worker/agent/trainers/trainer_build.h"

namespace strata::worker {

std::string OfThisProcess(const std::string& path) {
  return absl::StrReplaceAll(path, {{"/proc/self/", absl::StrCat("/proc/", getpid(), "/")}});
}

absl::StatusOr<std::vector<std::unique_ptr<Trainer>>> StartTrainers(const TrainersOptions& options,
                                                                    TrainerPoll* poll) {
  ASSIGN_OR_RETURN(const TrainerProgram program, PinnedTrainer(options.device));
  std::vector<std::unique_ptr<Trainer>> trainers;
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
    if (options.variables) start.variables = options.variables(rank);
    if (options.launch) {
      std::vector<std::string> command = options.launch(rank);
      command.insert(command.end(), {OfThisProcess(program.executable), program.path});
      command.insert(command.end(), start.arguments.begin(), start.arguments.end());
      start.name = start.executable = command.front();
      start.arguments.assign(command.begin() + 1, command.end());
    }
    ASSIGN_OR_RETURN(std::unique_ptr<TrainerProcess> trainer, TrainerProcess::Start(start, poll));
    trainers.push_back(std::move(trainer));
  }
  return trainers;
}

}  // namespace strata::worker
