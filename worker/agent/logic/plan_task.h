// Before any rank starts: one trainer process compiles the program and finds where the job stands.
// So what is predicted is fixed before the processes exist that are measured against it.
#ifndef STRATA_WORKER_AGENT_LOGIC_PLAN_TASK_H_
#define STRATA_WORKER_AGENT_LOGIC_PLAN_TASK_H_

#include <optional>
#include <string>

#include "proto/strata/v1/trainer.pb.h"
#include "worker/agent/logic/trainer_group.h"

namespace strata::worker {

class PlanTask final : public GroupTask {
 public:
  explicit PlanTask(v1::TrainerTask task);

  void Begin(TrainerGroup& group) override;
  absl::Status OnEvent(TrainerGroup& group, int rank, const v1::TrainerEvent& event) override;
  bool OnInterrupt(TrainerGroup&) override { return false; }
  std::string NameOf(int) const override { return "the planning process"; }

  // Present after success.
  const std::optional<v1::JobPlan>& plan() const { return plan_; }

 private:
  v1::TrainerTask task_;
  std::optional<v1::JobPlan> plan_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOGIC_PLAN_TASK_H_
