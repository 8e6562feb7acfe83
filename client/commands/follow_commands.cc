// watch, logs, wait: what lasts as long as a job does.
#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/command_line/parser.h"
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
#include "common/status_macros.h"
#include "common/units.h"
#include "spec/problems.h"

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
int NoLines(ApiClient& client, const v1::StreamLogsRequest& request, Terminal& terminal) {
  const std::string name = PlainName(request.name());
  const absl::StatusOr<v1::Job> job = client.GetJob(request.name());
  if (!job.ok()) return FailCallAbout("job", name, job.status(), terminal);
  const int64_t ranks = std::max<int64_t>(job->spec().resources().ranks(), 1);
  for (const int32_t rank : request.ranks()) {
    if (rank < ranks) continue;
    terminal.Error(absl::StrCat("strata logs: --rank ", rank, ": job ", name, " has ", ranks,
                                ranks == 1 ? " rank, 0" : " ranks, 0 to ",
                                ranks == 1 ? "" : absl::StrCat(ranks - 1)));
    return kExitUsage;
  }
  const std::string who = request.ranks_size() == 1
                              ? absl::StrCat("its rank ", request.ranks(0), " has")
                              : "its ranks have";
  const bool all = !request.has_since() && request.epoch() == 0 && request.cursor().empty();
  terminal.Say(absl::StrCat("job ", name, " is ", v1::Job::State_Name(job->state()), "; ", who,
                            " written no ", all ? "lines" : "such lines"));
  return kExitDone;
}

// Of --since: `10m` ago, or a time.
absl::StatusOr<google::protobuf::Timestamp> SinceOf(const std::string& text) {
  absl::Time since;
  std::string error;
  if (const auto ago = ParseTime(text); ago.ok()) {
    since = absl::UnixEpoch() + absl::Seconds(common::WallSeconds()) - *ago;
  } else if (!absl::ParseTime(absl::RFC3339_full, text, &since, &error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--since ", spec::Shown(text),
                     ": write how long ago, such as 10m, or a time such as 2026-11-23T07:00:00Z"));
  }
  google::protobuf::Timestamp time;
  time.set_seconds(absl::ToUnixSeconds(since));
  time.set_nanos(static_cast<int32_t>(
      absl::ToInt64Nanoseconds(since - absl::FromUnixSeconds(time.seconds()))));
  return time;
}

absl::StatusOr<v1::StreamLogsRequest> LogsRequest(const Arguments& arguments) {
  v1::StreamLogsRequest request;
  request.set_name(JobResource(arguments.positional()[0]));
  request.set_rank(-1);
  for (const std::string& rank : arguments.All("--rank")) {
    int32_t number = 0;
    if (!absl::SimpleAtoi(rank, &number) || number < 0) {
      return absl::InvalidArgumentError(absl::StrCat("--rank ", rank, ": no rank"));
    }
    request.add_ranks(number);
  }
  request.set_follow(arguments.Has("--follow"));
  request.set_tail(static_cast<int32_t>(arguments.Count("--tail").value_or(0)));
  request.set_epoch(arguments.Count("--epoch").value_or(0));
  request.set_cursor(arguments.Text("--cursor"));
  if (arguments.Has("--since")) {
    ASSIGN_OR_RETURN(*request.mutable_since(), SinceOf(arguments.Text("--since")));
  }
  return request;
}

int Logs(const Arguments& arguments, Terminal& terminal) {
  const std::string& name = arguments.positional()[0];
  const absl::StatusOr<v1::StreamLogsRequest> request = LogsRequest(arguments);
  if (!request.ok()) return Fail(request.status(), terminal);
  int code = kExitDone;
  const auto client = Reach(arguments, terminal, code);
  if (client == nullptr) return code;
  const InterruptScope interrupts;
  const common::MonotonicClock clock{};
  LogPrinter printer(arguments.Text("--output", "table") == "json", terminal);
  LogOptions options;
  options.request = *request;
  const absl::Status read = ReadLogs(
      *client, options, printer,
      [&] { return !interrupts.interrupted() && terminal.out_error() == 0; }, clock);
  if (interrupts.interrupted()) return kExitInterrupted;
  if (terminal.out_error() != 0) return kExitFailed;  // told by the caller
  if (!read.ok()) return FailCallAbout("job", name, read, terminal);
  return printer.lines() > 0 ? kExitDone : NoLines(*client, *request, terminal);
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
  const std::optional<double> timeout = arguments.Seconds("--timeout");
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
  Flag rank = {"--rank", Flag::Kind::kCount, "R", "of one rank; may be repeated", "", 0, 1 << 20};
  rank.repeated = true;
  Command logs = ClusterCommand(
      "logs", "NAME [--rank R] [--tail N] [--since TIME] [-f]", "Show what a job's ranks wrote",
      {"NAME"}, 1,
      {rank,
       {"--follow", Flag::Kind::kSwitch, "", "go on as more comes", "-f"},
       {"--tail", Flag::Kind::kCount, "N", "begin with the last N lines", "", 1, 10'000},
       {"--since", kText, "TIME", "so long ago, such as 10m, or a time as 2026-11-23T07:00:00Z"},
       {"--epoch", Flag::Kind::kCount, "N", "of one epoch of the ranks", "", 1, 1e15},
       {"--cursor", kText, "CURSOR", "what comes after this line (-o json tells cursors)"}},
      Logs);
  logs.outputs = {"table", "json"};
  return {
      ClusterCommand("watch", "NAME", "Follow a job's progress and return its outcome", {"NAME"}, 1,
                     {}, Watch),
      logs,
      ClusterCommand(
          "wait", "NAME --for=state=SUCCEEDED|step=N [--timeout TIME]",
          "Wait until a job gets there", {"NAME"}, 1,
          {condition,
           {"--timeout", Flag::Kind::kTime, "TIME", "give up after this long, such as 90s"}},
          Wait),
  };
}

}  // namespace strata::client
