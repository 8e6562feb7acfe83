// watch, logs, wait: what lasts as long as a job does.
#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/commands/attach.h"
#include "client/commands/cluster_call.h"
#include "client/commands/registry.h"
#include "client/exit_codes.h"
#include "client/interrupts.h"
#include "client/job_follower.h"
#include "client/log_printer.h"
#include "client/views/job_view.h"
#include "client/wait_condition.h"
#include "common/clock.h"
#include "common/units.h"

namespace strata::client {
namespace {

int Watch(const Arguments& arguments, Terminal& terminal) {
  const std::string& name = arguments.positional()[0];
  int code = kExitDone;
  const auto client = Reach(arguments, terminal, code);
  if (client == nullptr) return code;
  const absl::StatusOr<v1::Job> job = client->GetJob(JobResource(name));
  if (!job.ok()) return FailCallAbout("job", name, job.status(), terminal);
  AttachOptions options;
  options.after_step = std::max<int64_t>(0, job->step() - 1);  // from now on; the newest at once
  const std::string output = arguments.Text("--output", "table");
  options.lines = output == "json";
  if (!options.lines) options.outcome = output;
  return Attach(*client, *job, options, terminal);
}

// Why nothing was printed: the job has no such rank (2), or nothing was written.
int NoLines(ApiClient& client, const std::string& name, int32_t rank, Terminal& terminal) {
  const absl::StatusOr<v1::Job> job = client.GetJob(JobResource(name));
  if (!job.ok()) return FailCallAbout("job", name, job.status(), terminal);
  const int64_t ranks = std::max<int64_t>(job->spec().resources().ranks(), 1);
  if (rank >= ranks) {
    terminal.Error(absl::StrCat("strata logs: --rank ", rank, ": job ", PlainName(name), " has ",
                                ranks, ranks == 1 ? " rank, 0" : " ranks, 0 to ",
                                ranks == 1 ? "" : absl::StrCat(ranks - 1)));
    return kExitUsage;
  }
  const std::string who = rank < 0 ? "its ranks have" : absl::StrCat("its rank ", rank, " has");
  terminal.Say(absl::StrCat("job ", PlainName(name), " is ", v1::Job::State_Name(job->state()),
                            "; ", who, " written no lines"));
  return kExitDone;
}

int Logs(const Arguments& arguments, Terminal& terminal) {
  const std::string& name = arguments.positional()[0];
  int code = kExitDone;
  const auto client = Reach(arguments, terminal, code);
  if (client == nullptr) return code;
  const InterruptScope interrupts;
  const common::MonotonicClock clock{};
  LogPrinter printer(arguments.Text("--output", "table") == "json", terminal);
  LogOptions options;
  options.rank = static_cast<int32_t>(arguments.Count("--rank").value_or(-1));
  options.follow = arguments.Has("--follow");
  const absl::Status read = ReadLogs(
      *client, JobResource(name), options, printer,
      [&] { return !interrupts.interrupted() && terminal.out_error() == 0; }, clock);
  if (interrupts.interrupted()) return kExitInterrupted;
  if (terminal.out_error() != 0) return kExitFailed;  // told by the caller
  if (!read.ok()) return FailCallAbout("job", name, read, terminal);
  return printer.lines() > 0 ? kExitDone : NoLines(*client, name, options.rank, terminal);
}

// The end of a wait, told.
int Ended(const v1::Job& job, const std::string& condition, Verdict verdict,
          const std::string& output, Terminal& terminal) {
  if (output == "json" || output == "yaml") terminal.Out(ToText(ToJsonWithSpec(job), output));
  if (output == "name") terminal.Out(PlainName(job.name()) + "\n");
  const std::string now = absl::StrCat("job ", PlainName(job.name()), " is ",
                                       v1::Job::State_Name(job.state()), " at step ", job.step());
  if (verdict == Verdict::kMet) {
    terminal.Say(now);
    return kExitDone;
  }
  const std::string why =
      IsTerminal(job.state()) ? job.reason() : absl::StrCat("its last step is ", job.target_step());
  terminal.Error(
      absl::StrCat(now, ": ", condition, " cannot come true", why.empty() ? "" : " — ", why));
  return kExitFailed;
}

int Wait(const Arguments& arguments, Terminal& terminal) {
  const std::string text = arguments.Text("--for");
  const absl::StatusOr<WaitCondition> condition = WaitCondition::Parse(text);
  if (!condition.ok()) return Fail(condition.status(), terminal);
  const std::string& name = arguments.positional()[0];
  int code = kExitDone;
  const auto client = Reach(arguments, terminal, code);
  if (client == nullptr) return code;
  const std::string output = arguments.Text("--output", "table");
  absl::StatusOr<v1::Job> known = client->GetJob(JobResource(name));
  if (!known.ok()) return FailCallAbout("job", name, known.status(), terminal);
  v1::Job job = *std::move(known);
  Verdict verdict = condition->Of(job);
  if (verdict != Verdict::kOpen) return Ended(job, text, verdict, output, terminal);

  const common::MonotonicClock clock{};
  const InterruptScope interrupts;
  const double began = clock.Now();
  const std::optional<double> timeout = arguments.Number("--timeout");
  const auto timed_out = [&] { return timeout.has_value() && clock.Now() - began >= *timeout; };
  FollowOptions follow;
  follow.after_step = job.step();
  FollowCallbacks callbacks;
  callbacks.on_progress = [&](const v1::JobProgress& progress) {
    if (progress.has_step()) job.set_step(progress.step().step());
    if (progress.has_job()) job = progress.job();
    if (verdict == Verdict::kOpen) verdict = condition->Of(job);
  };
  callbacks.on_tick = [&] {
    terminal.Transient(absl::StrCat("job ", name, ": ", v1::Job::State_Name(job.state()), ", step ",
                                    job.step(), ", waiting for ", text, " … ",
                                    common::FormatSeconds(std::max(1.0, clock.Now() - began))));
    return verdict == Verdict::kOpen && !timed_out() && !interrupts.interrupted();
  };
  callbacks.on_lost = [&](const absl::Status& why) {
    terminal.Say(absl::StrCat(absl::string_view(why.message()), "; waiting for it"));
  };
  const absl::StatusOr<v1::Job> ended = FollowJob(*client, job.name(), follow, callbacks, clock);
  if (ended.ok() && verdict == Verdict::kOpen) {
    job = *ended;
    verdict = condition->Of(job);
  }
  if (verdict != Verdict::kOpen) return Ended(job, text, verdict, output, terminal);
  if (interrupts.interrupted()) return kExitInterrupted;
  if (!timed_out()) return FailCallAbout("job", name, ended.status(), terminal);
  terminal.Error(absl::StrCat("job ", name, " is ", v1::Job::State_Name(job.state()), " at step ",
                              job.step(), " after ", common::FormatSeconds(*timeout), ": ", text,
                              " has not come true"));
  return kExitUnavailable;
}

}  // namespace

std::vector<Command> FollowCommands() {
  constexpr auto kText = Flag::Kind::kText;
  Flag condition = {"--for", kText, "CONDITION", "state=STATE or step=N"};
  condition.required = true;
  return {
      ClusterCommand("watch", "NAME", "Follow a job's progress and return its outcome", {"NAME"}, 1,
                     {}, Watch),
      ClusterCommand("logs", "NAME [--rank R] [-f]", "Show what a job's ranks wrote", {"NAME"}, 1,
                     {{"--rank", Flag::Kind::kCount, "R", "of one rank", "", 0, 1 << 20},
                      {"--follow", Flag::Kind::kSwitch, "", "go on as more comes", "-f"}},
                     Logs),
      ClusterCommand(
          "wait", "NAME --for=state=SUCCEEDED|step=N [--timeout SECONDS]",
          "Wait until a job gets there", {"NAME"}, 1,
          {condition,
           {"--timeout", Flag::Kind::kNumber, "SECONDS", "give up after this long", "", 0, 1e9}},
          Wait),
  };
}

}  // namespace strata::client
