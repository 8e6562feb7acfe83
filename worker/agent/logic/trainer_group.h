// The trainers of one task on this node, by place: the place of a rank in `ranks`.
#ifndef STRATA_WORKER_AGENT_LOGIC_TRAINER_GROUP_H_
#define STRATA_WORKER_AGENT_LOGIC_TRAINER_GROUP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/strata/v1/trainer.pb.h"
#include "worker/agent/logic/trainer.h"

namespace strata::worker {

class TrainerGroup {
 public:
  TrainerGroup(std::vector<int> ranks, std::vector<std::unique_ptr<Trainer>> trainers)
      : ranks_(std::move(ranks)), trainers_(std::move(trainers)) {}

  int size() const { return static_cast<int>(trainers_.size()); }
  int rank(int place) const { return ranks_[place]; }
  Trainer& operator[](int place) { return *trainers_[place]; }

  void SendAll(const v1::TrainerCommand& command);
  // Tells all to end at once, in a command and by the end of the socket.
  void EndAll(const std::string& reason);
  void KillAll();
  void LetGo();
  bool AllReaped() const;

 private:
  std::vector<int> ranks_;
  std::vector<std::unique_ptr<Trainer>> trainers_;
};

// What a group of trainers is told, and what follows from what they tell.
class GroupTask {
 public:
  virtual ~GroupTask() = default;
  // Once, with the trainers just started.
  virtual void Begin(TrainerGroup& group) = 0;
  // An event other than `ended`. An error ends the group; its message is the reason.
  virtual absl::Status OnEvent(TrainerGroup& group, int place, const v1::TrainerEvent& event) = 0;
  // The user wants to stop. True: the trainers were asked to end in an orderly way; false: they
  // have nothing worth the wait.
  virtual bool OnInterrupt(TrainerGroup& group) = 0;
  // Up to which of its events the trainer need not keep them, `heard` being the last.
  virtual uint64_t Settled(int /*place*/, uint64_t heard) const { return heard; }
  // What messages call the trainer.
  virtual std::string NameOf(int rank) const { return absl::StrCat("rank ", rank); }
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOGIC_TRAINER_GROUP_H_
