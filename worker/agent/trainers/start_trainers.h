// Starts the trainers of a task.
#ifndef STRATA_WORKER_AGENT_TRAINERS_START_TRAINERS_H_
#define STRATA_WORKER_AGENT_TRAINERS_START_TRAINERS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/agent/logic/trainer.h"
#include "worker/agent/trainers/trainer_poll.h"

namespace strata::worker {

struct TrainersOptions {
  std::vector<int> ranks;
  std::string device = "cpu";  // what they compute on (resources.device)
  std::string job_directory;   // stands in their command lines; may be empty
  // Path of a rank's progress file and of its log; null: files without a name, our stderr.
  std::function<std::string(int rank)> progress_path;
  std::function<std::string(int rank)> log_path;
  // The command that starts it (LaunchCommand), which its path, its name and its arguments follow;
  // null: it is started by itself.
  std::function<std::vector<std::string>(int rank)> launch;
  // TrainerStart.variables of a rank; null: none.
  std::function<std::vector<std::string>(int rank)> variables;
  std::vector<int> locks;  // descriptors that they keep open; numbers from 16 on
};

// What /proc/self/… of this process is to another one.
std::string OfThisProcess(const std::string& path);

// From the binary beside this process's own; one for each rank, or none. `poll` is borrowed.
absl::StatusOr<std::vector<std::unique_ptr<Trainer>>> StartTrainers(const TrainersOptions& options,
                                                                    TrainerPoll* poll);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_TRAINERS_START_TRAINERS_H_
