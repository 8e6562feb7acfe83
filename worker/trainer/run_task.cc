#include "worker/trainer/run_task.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "collectives/operation_ring.h"
#include "common/clock.h"
#include "common/path_roots.h"
#include "common/status_macros.h"
#include "kernels/isa.h"
#include "protocol/exit_codes.h"
#include "worker/shared/progress_writer.h"
#include "worker/trainer/build_mark.h"
#include "worker/trainer/calibrate_task.h"
#include "worker/trainer/evaluate_task.h"
#include "worker/trainer/generate_task.h"
#include "worker/trainer/recorded_checkpoint.h"
#include "worker/trainer/train_task.h"
#include "worker/trainer/watched_file_system.h"

namespace strata::worker {
namespace {

// Room for more instructions than programs of this width have; pages that are not used cost
// nothing.
constexpr uint32_t kLabelCapacity = 16384;

absl::StatusOr<v1::JobPlan> Plan(const TaskContext& context) {
  switch (context.task.kind()) {
    case v1::TrainerTask::KIND_TRAIN:
      return PlanTraining(context);
    case v1::TrainerTask::KIND_EVALUATE:
      return PlanEvaluation(context);
    case v1::TrainerTask::KIND_GENERATE:
      return PlanGeneration(context);
    case v1::TrainerTask::KIND_CALIBRATE:
      return PlanCalibration(context);
    default:
      return absl::InternalError("a task of a kind that this build does not know");
  }
}

absl::StatusOr<v1::Finished::Outcome> Perform(const TaskContext& context) {
  if (context.task.plan_only()) {
    v1::TrainerEvent event;
    ASSIGN_OR_RETURN(*event.mutable_plan(), Plan(context));
    context.control->Send(event);
    return v1::Finished::SUCCEEDED;
  }
  switch (context.task.kind()) {
    case v1::TrainerTask::KIND_TRAIN:
      return RunTraining(context);
    case v1::TrainerTask::KIND_EVALUATE:
      RETURN_IF_ERROR(RunEvaluation(context));
      return v1::Finished::SUCCEEDED;
    case v1::TrainerTask::KIND_GENERATE:
      RETURN_IF_ERROR(RunGeneration(context));
      return v1::Finished::SUCCEEDED;
    case v1::TrainerTask::KIND_CALIBRATE:
      RETURN_IF_ERROR(RunCalibration(context));
      return v1::Finished::SUCCEEDED;
    default:
      return absl::InternalError("a task of a kind that this build does not know");
  }
}

absl::StatusOr<v1::Finished::Outcome> TakeAndPerform(TaskContext& context) {
  RETURN_IF_ERROR(kernels::CheckCpu());
  ASSIGN_OR_RETURN(context.build, BuildMark());
  ASSIGN_OR_RETURN(const v1::TrainerCommand command, context.control->Next());
  if (!command.has_task() || command.task().threads() < 1 || command.task().ranks() < 1 ||
      command.task().rank() < 0 || command.task().rank() >= command.task().ranks()) {
    return absl::InternalError("the agent sent something else than a task");
  }
  context.task = command.task();
  const auto& roots = context.task.roots();
  ASSIGN_OR_RETURN(common::PathRoots opened, common::PathRoots::Open({roots.begin(), roots.end()}));
  common::PathRoots::SetForProcess(std::move(opened));
  return Perform(context);
}

// CLI.md: what files and commands are to blame for is 2; what was planned and does not fit is 3.
int ExitCodeOf(const absl::Status& status, bool planned) {
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
      return planned ? protocol::kExitInfeasible : protocol::kExitFailed;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kDataLoss:  // a damaged checkpoint or weights file
      return protocol::kExitUsage;
    default:
      return protocol::kExitFailed;
  }
}

v1::Ended Describe(const absl::StatusOr<v1::Finished::Outcome>& outcome, int ranks, bool planned) {
  v1::Ended ended;
  if (outcome.ok()) {
    ended.set_outcome(*outcome);
    return ended;
  }
  const absl::Status& status = outcome.status();
  ended.set_outcome(v1::Finished::FAILED);
  ended.set_exit_code(ExitCodeOf(status, planned));
  ended.set_message(std::string(status.message()));
  const std::optional<v1::CheckpointProblem> problem = ProblemOf(status);
  if (problem.has_value()) *ended.mutable_checkpoint_problem() = *problem;
  ended.set_echo(
      ranks > 1 && !problem.has_value() &&
      (absl::IsUnavailable(status) || absl::IsCancelled(status) || absl::IsAborted(status)));
  return ended;
}

OutcomeState StateOf(const v1::Ended& ended) {
  switch (ended.outcome()) {
    case v1::Finished::SUCCEEDED:
      return OutcomeState::kSucceeded;
    case v1::Finished::INTERRUPTED:
      return OutcomeState::kInterrupted;
    default:
      return ended.echo() ? OutcomeState::kEcho : OutcomeState::kFailed;
  }
}

}  // namespace

int RunTask(Control& control, CheckpointMail& mail, int progress_descriptor,
            const TrainerParts& parts) {
  const common::MonotonicClock clock{};
  const ProgressSizes sizes{
      kLabelCapacity, static_cast<uint32_t>(collectives::OperationRing::RegionBytes(kRingRecords))};
  const absl::StatusOr<std::unique_ptr<ProgressWriter>> progress =
      ProgressWriter::Create(progress_descriptor, sizes, &clock);
  TaskContext context;
  context.control = &control;
  context.mail = &mail;
  context.parts = parts;
  absl::StatusOr<v1::Finished::Outcome> outcome = v1::Finished::FAILED;
  if (progress.ok()) {
    WatchedFileSystem files(checkpoint::PosixFileSystem(), progress->get());
    context.progress = progress->get();
    context.files = &files;
    outcome = TakeAndPerform(context);
  } else {
    outcome = progress.status();
  }
  v1::TrainerEvent last;
  *last.mutable_ended() = Describe(outcome, context.task.ranks(), context.task.plan_only());
  if (progress.ok()) {
    (*progress)->SetPhase(Phase::kEnding);
    (*progress)->SetOutcome(StateOf(last.ended()), last.ended().exit_code(),
                            last.ended().message());
  }
  control.Send(last);
  return last.ended().exit_code();
}

}  // namespace strata::worker
