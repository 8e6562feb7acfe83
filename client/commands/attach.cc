#include "client/commands/attach.h"

#include "absl/strings/str_cat.h"
#include "client/commands/cluster_call.h"
#include "client/exit_codes.h"
#include "client/interrupts.h"
#include "client/job_follower.h"
#include "client/job_presenter.h"
#include "client/views/job_view.h"
#include "common/clock.h"
#include "protocol/step_record.h"

namespace strata::client {
namespace {

// One line: {"step": as in metrics.jsonl}, {"evaluation": …}, {"checkpoint": …}, {"notice": …} or
// {"job": …}.
Json ProgressJson(const v1::JobProgress& progress) {
  switch (progress.progress_case()) {
    case v1::JobProgress::kStep:
      return {{"step", Json::parse(protocol::StepLine(progress.step(), /*job_uid=*/""))}};
    case v1::JobProgress::kEvaluation:
      return {{"evaluation",
               {{"step", progress.evaluation().step()},
                {"validation_loss", progress.evaluation().validation_loss()}}}};
    case v1::JobProgress::kCheckpoint:
      return {{"checkpoint",
               {{"step", progress.checkpoint().step()}, {"path", progress.checkpoint().path()}}}};
    case v1::JobProgress::kNotice:
      return {{"notice", progress.notice().text()}};
    case v1::JobProgress::kJob:
      return {{"job", ToJson(progress.job())}};
    case v1::JobProgress::PROGRESS_NOT_SET:
      break;
  }
  return Json::object();
}

void ShowOutcome(const v1::Job& job, const std::string& output, Terminal& terminal) {
  if (output == "name") {
    terminal.Out(PlainName(job.name()) + "\n");
  } else if (output == "json" || output == "yaml") {
    terminal.Out(ToText(ToJsonWithSpec(job), output));
  }
}

}  // namespace

int Attach(ApiClient& client, const v1::Job& job, const AttachOptions& options,
           Terminal& terminal) {
  const common::MonotonicClock clock{};
  const InterruptScope interrupts;
  JobPresenter presenter(job, terminal, clock);
  FollowOptions follow;
  follow.after_step = options.after_step;
  FollowCallbacks callbacks;
  callbacks.on_progress = [&](const v1::JobProgress& progress) {
    presenter.OnProgress(progress);
    if (options.lines) terminal.Out(ToJsonLine(ProgressJson(progress)));
  };
  callbacks.on_tick = [&] {
    presenter.OnTick();
    return !interrupts.interrupted() && terminal.out_error() == 0;
  };
  callbacks.on_lost = [&](const absl::Status&) { presenter.OnLost(); };
  callbacks.on_back = [&] { presenter.OnBack(); };
  const absl::StatusOr<v1::Job> ended = FollowJob(client, job.name(), follow, callbacks, clock);
  const std::string name = PlainName(job.name());
  if (interrupts.interrupted() && !ended.ok()) {
    terminal.Error(absl::StrCat("detached: job ", name, " goes on — come back with strata watch ",
                                name, ", end it with strata cancel ", name));
    return kExitInterrupted;
  }
  if (!ended.ok() && terminal.out_error() != 0) return kExitFailed;  // told by the caller
  if (!ended.ok()) return FailCallAbout("job", name, ended.status(), terminal);
  const int code = presenter.Conclude(*ended);
  ShowOutcome(*ended, options.outcome, terminal);
  return code;
}

}  // namespace strata::client
