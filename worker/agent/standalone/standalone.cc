#include "worker/agent/standalone/standalone.h"

#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/agent/logic/job_task.h"
#include "worker/agent/logic/plan_task.h"
#include "worker/agent/logic/verdict.h"
#include "worker/agent/machine/directory_lock.h"
#include "worker/agent/machine/epoch_folder.h"
#include "worker/agent/machine/machine_memory.h"
#include "worker/agent/standalone/local_overseer.h"
#include "worker/agent/standalone/request_check.h"
#include "worker/agent/standalone/supervise.h"
#include "worker/agent/trainers/metrics_files.h"

namespace strata::worker {
namespace {

// Invalid files and folders are the user's (2), what fits nowhere is infeasible (3), what breaks is
// the job's (1).
v1::Finished FailedWith(const absl::Status& status) {
  const bool usage = status.code() == absl::StatusCode::kInvalidArgument;
  const bool infeasible = status.code() == absl::StatusCode::kResourceExhausted;
  return Failed(usage ? 2 : infeasible ? 3 : 1, std::string(status.message()));
}

v1::TrainerTask MakeTask(const v1::StandaloneRequest& request) {
  v1::TrainerTask task;
  switch (request.task()) {
    case v1::StandaloneRequest::TASK_EVALUATE:
      task.set_kind(v1::TrainerTask::KIND_EVALUATE);
      *task.mutable_request() = request;
      break;
    case v1::StandaloneRequest::TASK_GENERATE:
      task.set_kind(v1::TrainerTask::KIND_GENERATE);
      *task.mutable_request() = request;
      break;
    case v1::StandaloneRequest::TASK_CALIBRATE:
      task.set_kind(v1::TrainerTask::KIND_CALIBRATE);
      *task.mutable_request() = request;
      break;
    default:
      task.set_kind(v1::TrainerTask::KIND_TRAIN);
      *task.mutable_job() = request.job();
      if (request.has_profile()) *task.mutable_profile() = request.profile();
      task.set_resume(request.resume());
      task.set_job_directory(request.job_directory());
  }
  task.set_data_devices("lo");  // all of them are on this machine
  task.set_ranks(static_cast<int>(request.ranks()));
  task.set_ranks_on_node(task.ranks());
  task.set_threads(static_cast<int>(request.threads_per_rank()));
  return task;
}

TrainersOptions OptionsFor(const v1::TrainerTask& task, int ranks,
                           const std::string& progress_folder) {
  TrainersOptions options;
  options.ranks.resize(ranks);
  std::iota(options.ranks.begin(), options.ranks.end(), 0);
  const bool trains = task.kind() == v1::TrainerTask::KIND_TRAIN;
  options.device = (trains ? task.job() : task.request().job()).resources().device();
  options.job_directory = task.job_directory();
  if (!progress_folder.empty()) {
    options.progress_path = [progress_folder](int rank) {
      return absl::StrCat(progress_folder, "/rank-", rank, ".progress");
    };
  }
  return options;
}

v1::Finished RunRanks(const v1::TrainerTask& task, const std::string& progress_folder,
                      const std::vector<DirectoryLock>& locks, MetricsFiles* metrics,
                      ClientLink& client, const common::Clock& clock) {
  TrainersOptions options = OptionsFor(task, task.ranks(), progress_folder);
  for (const DirectoryLock& lock : locks) options.locks.push_back(lock.descriptor());
  LocalOverseer overseer(task, &client);
  JobTask job(task, options.ranks, &overseer);
  overseer.SetTask(&job);
  if (metrics != nullptr) job.Publish(metrics, task.plan().start_step());
  return Supervise(options, job, client, clock);
}

constexpr double kLockPatienceSeconds = 3;  // the trainers of a killed run end within it

// Two runs must not share the job's directory, nor that of its checkpoints.
absl::Status LockDirectories(const v1::StandaloneRequest& request, const common::Clock& clock,
                             std::vector<DirectoryLock>& locks) {
  for (const std::string& directory :
       {request.job_directory(), request.job().checkpoint().directory()}) {
    std::error_code error;
    if (directory.empty() || (!locks.empty() && std::filesystem::equivalent(
                                                    directory, request.job_directory(), error))) {
      continue;
    }
    ASSIGN_OR_RETURN(DirectoryLock lock,
                     DirectoryLock::Acquire(directory, kLockPatienceSeconds, clock));
    locks.push_back(std::move(lock));
  }
  return absl::OkStatus();
}

// The job's directory and its records, made ready for this epoch.
absl::StatusOr<MetricsFiles> OpenMetrics(const v1::StandaloneRequest& request,
                                         const v1::JobPlan& plan, const std::string& epoch_folder,
                                         ClientLink& client) {
  bool missing = false;
  absl::StatusOr<MetricsFiles> metrics = MetricsFiles::Open(
      request.job_directory(), request.metrics_path(), epoch_folder, plan.start_step(), &missing);
  if (metrics.ok() && missing) {
    client.Notice(v1::Notice::SEVERITY_WARNING,
                  absl::StrCat("some step records up to step ", plan.start_step(),
                               " are no longer in ", request.job_directory(), "/metrics.jsonl"));
  }
  return metrics;
}

}  // namespace

v1::Finished RunStandalone(const v1::StandaloneRequest& request, ClientLink& client,
                           const common::Clock& clock) {
  if (const absl::Status status = CheckRequest(request); !status.ok()) {
    return Failed(2, absl::StrCat("standalone request: ", std::string(status.message())));
  }
  v1::TrainerTask task = MakeTask(request);
  const bool train = task.kind() == v1::TrainerTask::KIND_TRAIN;
  std::vector<DirectoryLock> locks;
  if (train) {
    const absl::Status locked = LockDirectories(request, clock, locks);
    if (!locked.ok()) return FailedWith(locked);
  }
  if (train) task.set_minimum_epoch(NewestEpoch(request.job_directory()) + 1);

  PlanTask planning(task);
  const v1::Finished planned = Supervise(OptionsFor(task, 1, ""), planning, client, clock);
  if (planned.outcome() != v1::Finished::SUCCEEDED) return planned;
  if (!planning.plan().has_value()) return Failed(1, "the planning process gave no plan");
  *task.mutable_plan() = *planning.plan();
  for (const v1::Notice& notice : task.plan().notices()) {
    client.Notice(notice.severity(), notice.text());
  }
  task.mutable_plan()->clear_notices();
  if (const auto memory = ReadMachineMemory(); memory.has_value()) {
    std::vector<int> ranks(static_cast<size_t>(task.ranks()));
    std::iota(ranks.begin(), ranks.end(), 0);
    const std::string& device = (train ? task.job() : request.job()).resources().device();
    const absl::Status fits =
        CheckMemory(task.plan(), ranks, device, memory->total_bytes, "this machine has");
    if (!fits.ok()) return FailedWith(fits);
  }
  if (!train) return RunRanks(task, "", locks, nullptr, client, clock);
  const absl::StatusOr<std::string> folder =
      MakeEpochFolder(request.job_directory(), task.plan().epoch());
  if (!folder.ok()) return FailedWith(folder.status());
  absl::StatusOr<MetricsFiles> metrics = OpenMetrics(request, task.plan(), *folder, client);
  if (!metrics.ok()) return FailedWith(metrics.status());
  return RunRanks(task, *folder, locks, &*metrics, client, clock);
}

}  // namespace strata::worker
