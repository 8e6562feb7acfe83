#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/commands/cluster_call.h"
#include "client/commands/registry.h"
#include "client/exit_codes.h"
#include "client/job_data.h"
#include "client/job_loading.h"
#include "client/local_families.h"
#include "client/machine.h"
#include "client/machine_profile.h"
#include "client/metrics_path.h"
#include "client/run_presenter.h"
#include "client/worker_process.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "planner/order_of_sums.h"
#include "planner/step_comparison.h"
#include "proto/strata/v1/standalone.pb.h"

namespace strata::client {
namespace {

using strata::v1::Finished;
using strata::v1::StandaloneEvent;
using strata::v1::StandaloneRequest;

// One machine runs so many processes at most, as the worker has it.
absl::Status CheckRanks(const LoadedJob& loaded) {
  constexpr int64_t kMostRanks = 1024;
  const int64_t ranks = loaded.file.job.resources().ranks();
  if (ranks <= kMostRanks) return absl::OkStatus();
  spec::Problems problems(loaded.path);
  problems.Add({loaded.file.positions.Of("resources.ranks"), "resources.ranks",
                absl::StrCat(ranks, " ranks: strata run starts at most ", kMostRanks,
                             ", all on this machine"),
                "submit the job to a cluster, or lower parallel's degrees"});
  return problems.ToStatus();
}

struct PreparedRun {
  StandaloneRequest request;
  LoadedJob loaded;
};

// What a worker says of a key of the job ("memory.device: …"), with the key's place in the file.
std::string Located(const std::string& message, const LoadedJob& loaded) {
  const std::string path = message.substr(0, message.find(": "));
  if (!loaded.file.positions.Has(path)) return message;
  const spec::Position at = loaded.file.positions.Of(path);
  return absl::StrCat(loaded.path, ":", at.line, ":", at.column, ": ", message);
}

// Everything that can be found wrong before a process starts. The job's data files are prepared.
absl::StatusOr<PreparedRun> PrepareRun(const Arguments& arguments, Terminal& terminal) {
  spec::ReadOptions options;
  options.settings = arguments.All("--set");
  options.ranks = arguments.Count("--ranks");
  ASSIGN_OR_RETURN(LoadedJob loaded, LoadJob(arguments.positional()[0], options,
                                             DeciderHere(arguments.Text("--profile"), terminal)));
  const std::string metrics = arguments.Text("--metrics");
  const std::string directory =
      Absolute(arguments.Text("--dir", absl::StrCat("strata-runs/", loaded.file.job.name())));
  RETURN_IF_ERROR(CheckPathText("--dir", directory));
  RETURN_IF_ERROR(CheckRanks(loaded));
  if (!metrics.empty()) RETURN_IF_ERROR(CheckMetricsPath(metrics, loaded));
  const bool resume = arguments.Has("--resume");
  RETURN_IF_ERROR(PrepareDirectories(directory, resume, loaded));
  RETURN_IF_ERROR(CompleteJob(directory + "/data", terminal, loaded));
  StandaloneRequest request;
  request.set_task(StandaloneRequest::TASK_RUN);
  *request.mutable_job() = loaded.file.job;
  request.set_ranks(loaded.file.job.resources().ranks());
  request.set_threads_per_rank(ThreadsPerRank(request.ranks()));
  request.set_job_directory(directory);
  if (!metrics.empty()) request.set_metrics_path(Absolute(metrics));
  request.set_resume(resume);
  ASSIGN_OR_RETURN(const std::optional<v1::Profile> profile,
                   LoadProfile(arguments.Text("--profile")));
  if (profile.has_value()) *request.mutable_profile() = *profile;
  return PreparedRun{std::move(request), std::move(loaded)};
}

// What a run's steps teach the next plans on this machine.
class Lesson {
 public:
  Lesson(const v1::JobSpec& job, std::string profile, Terminal& terminal)
      : key_(planner::FamilyOf(job, job.model(), job.resources().device())),
        profile_(std::move(profile)),
        terminal_(terminal) {}

  void OnStep(const v1::StepRecord& step) {
    const auto compared = comparison_.Add(step);
    if (!compared.has_value() || failed_) return;
    const absl::Status kept = KeepComparison(profile_, key_, *compared, common::WallSeconds());
    failed_ = !kept.ok();
    if (failed_) terminal_.Say(absl::StrCat("what steps took is not kept: ", kept.message()));
  }

 private:
  const planner::FamilyKey key_;
  const std::string profile_;
  Terminal& terminal_;
  planner::StepComparison comparison_;
  bool failed_ = false;
};

int Run(const Arguments& arguments, Terminal& terminal) {
  const absl::StatusOr<PreparedRun> prepared = PrepareRun(arguments, terminal);
  if (!prepared.ok()) return Fail(prepared.status(), terminal);
  const StandaloneRequest* const request = &prepared->request;
  const absl::StatusOr<std::string> worker = FindWorker();
  if (!worker.ok()) return Fail(worker.status(), terminal);
  const common::MonotonicClock clock{};
  RunPresenter presenter(request->job(), request->job_directory(), terminal, clock);
  const std::string sums = planner::OrderOfSums(request->job());
  if (!sums.empty()) terminal.Say(sums);
  WorkerCallbacks callbacks;
  Lesson lesson(request->job(), arguments.Text("--profile"), terminal);
  callbacks.on_event = [&](const StandaloneEvent& event) {
    presenter.OnEvent(event);
    if (event.has_step()) lesson.OnStep(event.step());
  };
  callbacks.on_idle = [&] { presenter.OnIdle(); };
  callbacks.on_signal = [&](int) { presenter.OnSignal(); };
  absl::StatusOr<Finished> finished = RunWorker(*worker, *request, callbacks);
  if (!finished.ok()) return Fail(finished.status(), terminal);
  finished->set_message(Located(finished->message(), prepared->loaded));
  presenter.Conclude(*finished);
  if (arguments.Text("--output") == "json") terminal.Out(presenter.Summary(*finished));
  return finished->exit_code();
}

}  // namespace

Command RunCommand() {
  Command command;
  command.name = "run";
  command.usage =
      "JOB.yaml [--ranks N] [--set PATH=VALUE] [--metrics F.jsonl] [--dir D] [--resume] "
      "[--profile F]";
  command.summary = "Train a job in this terminal, without a cluster";
  command.arguments = {"JOB.yaml"};
  command.most_arguments = 1;
  command.flags = {
      {"--ranks", Flag::Kind::kCount, "N", "data-parallel ranks, where the file has no `parallel`",
       "", 1, 1 << 20},
      {"--set", Flag::Kind::kText, "PATH=VALUE", "change a key of the file; may be repeated"},
      {"--metrics", Flag::Kind::kText, "F.jsonl", "write the step records there too"},
      {"--dir", Flag::Kind::kText, "D", "the job's directory (default: ./strata-runs/NAME)"},
      {"--resume", Flag::Kind::kSwitch, "", "go on from the newest intact checkpoint"},
      {"--profile", Flag::Kind::kText, "F",
       "predict steps by this machine's profile (default: what strata calibrate wrote)"},
  };
  command.flags[1].repeated = true;
  command.outputs = {"table", "json"};
  command.run = Run;
  return command;
}

}  // namespace strata::client
