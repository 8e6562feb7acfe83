#include "worker/agent/logic/plan_task.h"

#include <utility>

namespace strata::worker {

PlanTask::PlanTask(v1::TrainerTask task) : task_(std::move(task)) { task_.set_plan_only(true); }

void PlanTask::Begin(TrainerGroup& group) {
  v1::TrainerCommand command;
  *command.mutable_task() = task_;
  group.SendAll(command);
}

absl::Status PlanTask::OnEvent(TrainerGroup&, int, const v1::TrainerEvent& event) {
  if (!event.has_plan() || plan_.has_value()) {
    return absl::InternalError("the planning process said what it was not asked for");
  }
  plan_ = event.plan();
  return absl::OkStatus();
}

}  // namespace strata::worker
