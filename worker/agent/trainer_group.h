// The trainers of one task, by rank.
#ifndef STRATA_WORKER_AGENT_TRAINER_GROUP_H_
#define STRATA_WORKER_AGENT_TRAINER_GROUP_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "proto/strata/v1/trainer.pb.h"
#include "worker/agent/trainer_process.h"

namespace strata::worker {

class TrainerGroup {
 public:
  // Starts `ranks` trainers from the binary beside this process's own. `job_directory` stands in
  // their command lines; their progress files are `progress_folder`/rank-K.progress (or nameless).
  static absl::StatusOr<TrainerGroup> Start(int ranks, const std::string& job_directory,
                                            const std::string& progress_folder);

  int size() const { return static_cast<int>(trainers_.size()); }
  TrainerProcess& operator[](int rank) { return *trainers_[rank]; }

  // A trainer that no longer listens is noticed by its end, not here.
  void Send(int rank, const v1::TrainerCommand& command);
  void SendAll(const v1::TrainerCommand& command);
  void HangAll();
  void KillAll();
  bool AllReaped() const;

 private:
  std::vector<std::unique_ptr<TrainerProcess>> trainers_;
};

// What a group of trainers is told, and what follows from what they tell.
class GroupTask {
 public:
  virtual ~GroupTask() = default;
  // Once, with the trainers just started.
  virtual void Begin(TrainerGroup& group) = 0;
  // An event other than `ended`. An error ends the group; its message is the reason.
  virtual absl::Status OnEvent(TrainerGroup& group, int rank, const v1::TrainerEvent& event) = 0;
  // The user wants to stop. True: the trainers were asked to end in an orderly way; false: they
  // have nothing worth the wait.
  virtual bool OnInterrupt(TrainerGroup& group) = 0;
  // What messages call the trainer.
  virtual std::string NameOf(int rank) const { return absl::StrCat("rank ", rank); }
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_TRAINER_GROUP_H_
