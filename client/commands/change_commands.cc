// cancel, update, suspend, delete: jobs that are to be otherwise.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "client/api/errors.h"
#include "client/command_line/parser.h"
#include "client/commands/changed_jobs.h"
#include "client/commands/cluster_call.h"
#include "client/commands/registry.h"
#include "client/commands/selector.h"
#include "client/exit_codes.h"
#include "client/views/job_view.h"
#include "common/status_macros.h"
#include "spec/problems.h"

namespace strata::client {
namespace {

constexpr size_t kMostNames = 1000;
constexpr int kMostTries = 5;  // of a change that others may come before

std::string CancelledText(const v1::Job& job) {
  const std::string plain = PlainName(job.name());
  if (job.state() == v1::Job::CANCELLED) return absl::StrCat("job ", plain, " is CANCELLED");
  if (IsTerminal(job.state())) {
    return absl::StrCat("job ", plain, " had ended: ", v1::Job::State_Name(job.state()));
  }
  return absl::StrCat("job ", plain, " is being cancelled — strata wait ", plain,
                      " --for=state=CANCELLED");
}

// --grace and --now; nothing: as the cluster's policy says.
absl::StatusOr<std::optional<google::protobuf::Duration>> GraceOf(const Arguments& arguments) {
  if (arguments.Has("--now")) return google::protobuf::Duration();
  if (!arguments.Has("--grace")) return std::nullopt;
  ASSIGN_OR_RETURN(const google::protobuf::Duration grace,
                   DurationOf("--grace", arguments.Text("--grace")));
  return grace;
}

int CancelSelected(ApiClient& client, const v1::CancelJobsRequest& request,
                   const std::string& output, Terminal& terminal) {
  const absl::StatusOr<v1::CancelJobsResponse> cancelled = client.CancelJobs(request);
  if (!cancelled.ok()) {
    return FailCall(AtFlags(cancelled.status(), {{"filter", "--filter"}, {"grace", "--grace"}}),
                    terminal);
  }
  if (IsStructured(output)) {
    Json list = Json::array();
    for (const v1::Job& job : cancelled->jobs()) list.push_back(ToJson(job));
    terminal.Out(ToText(list, output));
  }
  for (const v1::Job& job : cancelled->jobs()) {
    if (output == "name") terminal.Out(PlainName(job.name()) + "\n");
    if (output != "table") continue;
    terminal.Say(request.validate_only()
                     ? absl::StrCat("job ", PlainName(job.name()), " would be cancelled")
                     : CancelledText(job));
  }
  if (cancelled->jobs().empty()) terminal.Say("no job that is not over is selected");
  if (request.validate_only()) terminal.Say("--dry-run: nothing has changed");
  return kExitDone;
}

int Cancel(const Arguments& arguments, Terminal& terminal) {
  const auto& names = arguments.positional();
  const absl::StatusOr<std::string> filter = FilterOf(arguments);
  if (!filter.ok()) return Fail(filter.status(), terminal);
  const auto grace = GraceOf(arguments);
  if (!grace.ok()) return Fail(grace.status(), terminal);
  const char* problem = nullptr;
  if (names.empty() && filter->empty()) problem = "give NAME, --selector or --filter";
  if (!names.empty() && !filter->empty()) problem = "give either names or a selection";
  if (!names.empty() && arguments.Has("--dry-run")) problem = "--dry-run goes with a selection";
  if (arguments.Has("--now") && arguments.Has("--grace")) problem = "give either --now or --grace";
  if (problem != nullptr) {
    terminal.Error(absl::StrCat("strata cancel: ", problem));
    return kExitUsage;
  }
  int code = kExitDone;
  const auto client = Reach(arguments, terminal, code);
  if (client == nullptr) return code;
  const std::string output = arguments.Text("--output", "table");
  if (names.empty()) {
    v1::CancelJobsRequest request;
    request.set_filter(*filter);
    request.set_reason(arguments.Text("--reason"));
    request.set_validate_only(arguments.Has("--dry-run"));
    if (grace->has_value()) *request.mutable_grace() = **grace;
    return CancelSelected(*client, request, output, terminal);
  }
  const auto cancel = [&](const std::string& name) -> absl::StatusOr<v1::Job> {
    v1::CancelJobRequest request;
    request.set_name(name);
    request.set_reason(arguments.Text("--reason"));
    if (grace->has_value()) *request.mutable_grace() = **grace;
    const absl::StatusOr<v1::Job> job = client->CancelJob(request);
    if (job.ok()) return job;
    return AtFlags(job.status(), {{"grace", "--grace"}, {"reason", "--reason"}});
  };
  return ChangeJobs(names, output, terminal, cancel, CancelledText);
}

// `k=v` sets, `k-` removes, as kubectl label's.
absl::Status ApplyLabel(const std::string& typed, v1::JobSpec& spec) {
  const size_t equals = typed.find('=');
  if (equals != std::string::npos && equals > 0) {
    (*spec.mutable_labels())[typed.substr(0, equals)] = typed.substr(equals + 1);
    return absl::OkStatus();
  }
  if (equals == std::string::npos && typed.size() > 1 && absl::EndsWith(typed, "-")) {
    spec.mutable_labels()->erase(typed.substr(0, typed.size() - 1));
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("--label ", spec::Shown(typed),
                                                 ": not a label — KEY=VALUE sets one, KEY- "
                                                 "removes it"));
}

// The request that the flags make of the job as it is.
absl::StatusOr<v1::UpdateJobRequest> UpdateOf(const Arguments& arguments, const v1::Job& known) {
  v1::UpdateJobRequest request;
  v1::Job& job = *request.mutable_job();
  job.set_name(known.name());
  request.set_validate_only(arguments.Has("--dry-run"));
  auto& mask = *request.mutable_update_mask();
  if (const auto priority = arguments.Count("--priority"); priority.has_value()) {
    job.mutable_spec()->mutable_resources()->set_priority(*priority);
    mask.add_paths("spec.resources.priority");
  }
  if (arguments.Has("--queue")) {
    job.mutable_spec()->mutable_resources()->set_queue(arguments.Text("--queue"));
    mask.add_paths("spec.resources.queue");
  }
  if (const auto steps = arguments.Count("--steps"); steps.has_value()) {
    job.mutable_spec()->mutable_train()->set_steps(*steps);
    mask.add_paths("spec.train.steps");
  }
  if (const std::vector<std::string> labels = arguments.All("--label"); !labels.empty()) {
    job.set_etag(known.etag());  // the others are as they were seen
    *job.mutable_spec()->mutable_labels() = known.spec().labels();
    for (const std::string& label : labels) {
      RETURN_IF_ERROR(ApplyLabel(label, *job.mutable_spec()));
    }
    mask.add_paths("spec.labels");
  }
  if (const std::string limit = arguments.Text("--time-limit"); !limit.empty()) {
    if (limit != "none") {
      ASSIGN_OR_RETURN(*job.mutable_spec()->mutable_time_limit(),
                       DurationOf("--time-limit", limit));
    }
    mask.add_paths("spec.time_limit");
  }
  if (const std::string ttl = arguments.Text("--ttl"); !ttl.empty()) {
    if (ttl != "none") {
      ASSIGN_OR_RETURN(*job.mutable_ttl_after_finished(), DurationOf("--ttl", ttl));
    }
    mask.add_paths("ttl_after_finished");
  }
  if (mask.paths().empty()) {
    return absl::InvalidArgumentError(
        "strata update: nothing to change — give --priority, --queue, --steps, --label, "
        "--time-limit or --ttl");
  }
  return request;
}

const std::map<std::string, std::string>& UpdateFlags() {
  static const auto& flags = *new std::map<std::string, std::string>{
      {"resources.priority", "--priority"}, {"resources.queue", "--queue"},
      {"train.steps", "--steps"},           {"labels", "--label"},
      {"time_limit", "--time-limit"},       {"ttl_after_finished", "--ttl"}};
  return flags;
}

int Update(const Arguments& arguments, Terminal& terminal) {
  const std::string& name = arguments.positional()[0];
  int code = kExitDone;
  const auto client = Reach(arguments, terminal, code);
  if (client == nullptr) return code;
  for (int tries = 1;; ++tries) {
    const absl::StatusOr<v1::Job> known = client->GetJob(JobResource(name));
    if (!known.ok()) return FailCallAbout("job", name, known.status(), terminal);
    const absl::StatusOr<v1::UpdateJobRequest> request = UpdateOf(arguments, *known);
    if (!request.ok()) return Fail(request.status(), terminal);
    const absl::StatusOr<v1::Job> job = client->UpdateJob(*request);
    if (ReasonOf(job.status()) == "ETAG_MISMATCH" && tries < kMostTries) continue;
    if (!job.ok()) {
      return FailCallAbout("job", name, AtFlags(job.status(), UpdateFlags()), terminal);
    }
    const std::string output = arguments.Text("--output", "table");
    ShowEach({ToJsonWithSpec(*job)}, /*list=*/false, output, terminal);
    if (request->validate_only()) {
      terminal.Say("--dry-run: it could be changed so; nothing has");
    } else if (output == "table") {
      terminal.Say(absl::StrCat("job ", PlainName(job->name()),
                                " is updated: ", v1::Job::State_Name(job->state()),
                                job->reason().empty() ? "" : ", ", job->reason()));
    }
    return kExitDone;
  }
}

int Suspend(const Arguments& arguments, Terminal& terminal) {
  int code = kExitDone;
  const auto client = Reach(arguments, terminal, code);
  if (client == nullptr) return code;
  const std::string output = arguments.Text("--output", "table");
  const auto suspend = [&](const std::string& name) {
    v1::SuspendJobRequest request;
    request.set_name(name);
    return client->SuspendJob(request);
  };
  return ChangeJobs(arguments.positional(), output, terminal, suspend, [](const v1::Job& job) {
    const std::string plain = PlainName(job.name());
    return absl::StrCat("job ", plain,
                        job.state() == v1::Job::QUEUED ? " is suspended" : " is being suspended",
                        " — strata resume job ", plain, " lets it go on");
  });
}

// Adds to `deleted` what it was, and whether it is gone already.
int DeleteOne(ApiClient& client, bool node, const std::string& name, bool force, Terminal& terminal,
              std::vector<Json>& deleted_ones) {
  if (node) {
    v1::DeleteNodeRequest request;
    request.set_name(NodeResource(name));
    const absl::Status deleted = client.DeleteNode(request);
    if (!deleted.ok()) return FailCallAbout("node", name, deleted, terminal);
    terminal.Say(absl::StrCat("node ", PlainName(request.name()), " is deleted"));
    deleted_ones.push_back({{"name", PlainName(request.name())}, {"deleted", true}});
    return kExitDone;
  }
  v1::DeleteJobRequest request;
  request.set_name(JobResource(name));
  request.set_force(force);
  const absl::Status deleted = client.DeleteJob(request);
  if (!deleted.ok()) return FailCallAbout("job", name, deleted, terminal);
  const std::string plain = PlainName(request.name());
  const bool gone = !force || !client.GetJob(request.name()).ok();
  terminal.Say(absl::StrCat("job ", plain,
                            gone ? " is deleted" : " is being cancelled, and is deleted then",
                            "; its files stay"));
  deleted_ones.push_back({{"name", plain}, {"deleted", gone}});
  return kExitDone;
}

int Delete(const Arguments& arguments, Terminal& terminal) {
  const auto& words = arguments.positional();
  const bool node = words[0] == "node" || words[0] == "nodes";
  if (!node && words[0] != "job" && words[0] != "jobs") {
    terminal.Error(absl::StrCat("strata delete: unknown kind ", spec::Shown(words[0]),
                                " (the kinds are job and node) — strata delete job ",
                                spec::Shown(words.back())));
    return kExitUsage;
  }
  if (words.size() < 2 || (node && arguments.Has("--force"))) {
    terminal.Error(words.size() < 2 ? "strata delete: NAME is missing"
                                    : "strata delete: --force is for jobs");
    return kExitUsage;
  }
  int code = kExitDone;
  const auto client = Reach(arguments, terminal, code);
  if (client == nullptr) return code;
  std::vector<Json> deleted;
  for (size_t i = 1; i < words.size() && code == kExitDone; ++i) {
    code = DeleteOne(*client, node, words[i], arguments.Has("--force"), terminal, deleted);
  }
  ShowEach(deleted, words.size() > 2, arguments.Text("--output", "table"), terminal);
  return code;
}

}  // namespace

absl::StatusOr<google::protobuf::Duration> DurationOf(absl::string_view flag,
                                                      const std::string& text) {
  const absl::StatusOr<absl::Duration> parsed = ParseTime(text);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(flag, " ", spec::Shown(text), ": ",
                                                   absl::string_view(parsed.status().message())));
  }
  google::protobuf::Duration duration;
  const int64_t nanoseconds = absl::ToInt64Nanoseconds(*parsed);
  duration.set_seconds(nanoseconds / 1'000'000'000);
  duration.set_nanos(static_cast<int32_t>(nanoseconds % 1'000'000'000));
  return duration;
}

std::vector<Command> ChangeCommands() {
  constexpr auto kText = Flag::Kind::kText;
  constexpr auto kSwitch = Flag::Kind::kSwitch;
  constexpr auto kCount = Flag::Kind::kCount;
  std::vector<Flag> cancel = FilterFlags();
  cancel.push_back({"--grace", kText, "TIME", "for the last checkpoint, such as 30s"});
  cancel.push_back({"--now", kSwitch, "", "at once, without a last checkpoint"});
  cancel.push_back({"--reason", kText, "TEXT", "told with the job's end"});
  cancel.push_back({"--dry-run", kSwitch, "", "only tell which jobs a selection is"});
  Flag label = {"--label", kText, "KEY=VALUE", "set a label; KEY- removes it; may be repeated"};
  label.repeated = true;
  return {
      ClusterCommand("cancel", "NAME…|-l KEY=VALUE|--filter FILTER [--grace TIME|--now]",
                     "End jobs", {}, kMostNames, cancel, Cancel),
      ClusterCommand(
          "update", "NAME [--priority N] [--queue Q] [--steps N] [--label K=V] [--time-limit TIME]",
          "Change a job that is there", {"NAME"}, 1,
          {{"--priority", kCount, "N", "in the queue"},
           {"--queue", kText, "QUEUE", "the queue it belongs to"},
           {"--steps", kCount, "N", "its last step; ranks that train start anew at a checkpoint"},
           label,
           {"--time-limit", kText, "TIME", "such as 4h, for all its starts together; or none"},
           {"--ttl", kText, "TIME", "delete its record so long after its end; or none"},
           {"--dry-run", kSwitch, "", "only check whether it could be"}},
          Update),
      ClusterCommand("suspend", "NAME…", "Stop jobs at a checkpoint until they are resumed",
                     {"NAME"}, kMostNames, {}, Suspend),
      ClusterCommand("delete", "job NAME…|node NAME… [--force]",
                     "Forget jobs that are over, or nodes that are gone", {"job or node"},
                     kMostNames, {{"--force", kSwitch, "", "cancel a job that is not over first"}},
                     Delete),
  };
}

}  // namespace strata::client
