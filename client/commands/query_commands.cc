// get, describe, explain, events: one question each.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/api/errors.h"
#include "client/commands/cluster_call.h"
#include "client/commands/model_description.h"
#include "client/commands/registry.h"
#include "client/commands/selector.h"
#include "client/exit_codes.h"
#include "client/views/explanation_view.h"
#include "client/views/job_view.h"
#include "client/views/node_view.h"
#include "client/views/plan_family_view.h"
#include "client/views/step_view.h"
#include "common/clock.h"
#include "spec/problems.h"
#include "spec/suggest.h"

namespace strata::client {
namespace {

int GetJobs(ApiClient& client, const Arguments& arguments, const std::string& output,
            Terminal& terminal) {
  const absl::StatusOr<std::string> filter = FilterOf(arguments);
  if (!filter.ok()) return Fail(filter.status(), terminal);
  v1::ListJobsRequest request;
  request.set_filter(*filter);
  request.set_order_by(arguments.Text("--order-by"));
  request.set_view(IsStructured(output) ? v1::JOB_VIEW_FULL : v1::JOB_VIEW_BASIC);
  const absl::StatusOr<std::vector<v1::Job>> jobs = client.ListJobs(request);
  if (!jobs.ok()) {
    return FailCall(AtFlags(jobs.status(), {{"filter", "--filter"}, {"order_by", "--order-by"}}),
                    terminal);
  }
  if (IsStructured(output)) {
    Json list = Json::array();
    for (const v1::Job& job : *jobs) list.push_back(ToJson(job));
    terminal.Out(ToText(list, output));
  } else if (output == "name") {
    for (const v1::Job& job : *jobs) terminal.Out(PlainName(job.name()) + "\n");
  } else if (jobs->empty()) {
    terminal.Say(filter->empty() ? "no jobs yet — strata submit JOB.yaml" : "no such jobs");
  } else {
    terminal.Out(JobTable(*jobs, common::WallSeconds(), arguments.Has("--show-labels")));
  }
  return kExitDone;
}

int ListNodesAsText(const std::vector<v1::Node>& nodes, const std::string& output,
                    Terminal& terminal) {
  if (output == "name") {
    for (const v1::Node& node : nodes) terminal.Out(PlainName(node.name()) + "\n");
  } else if (nodes.empty()) {
    terminal.Say("no nodes yet — their agents register with the controller as they start");
  } else {
    terminal.Out(NodeTable(nodes, common::WallSeconds()));
  }
  return kExitDone;
}

int GetNodes(ApiClient& client, const std::string& output, Terminal& terminal) {
  const absl::StatusOr<v1::ListNodesResponse> listed = client.ListNodes();
  if (!listed.ok()) return FailCall(listed.status(), terminal);
  const std::vector<v1::Node> nodes(listed->nodes().begin(), listed->nodes().end());
  if (!IsStructured(output)) return ListNodesAsText(nodes, output, terminal);
  Json list = Json::array();
  for (const v1::Node& node : nodes) list.push_back(ToJson(node));
  terminal.Out(ToText(list, output));
  return kExitDone;
}

int GetOneNode(ApiClient& client, const std::string& name, const std::string& output,
               bool described, Terminal& terminal) {
  const absl::StatusOr<v1::Node> node = client.GetNode(NodeResource(name));
  if (!node.ok()) return FailCallAbout("node", name, node.status(), terminal);
  if (IsStructured(output)) {
    terminal.Out(ToText(ToJson(*node), output));
  } else if (described && output == "table") {
    terminal.Out(DescribeNode(*node, common::WallSeconds()));
  } else {
    return ListNodesAsText({*node}, output, terminal);
  }
  return kExitDone;
}

// The record of the job's last step; nothing where none comes within a moment.
std::optional<v1::StepRecord> LastRecord(ApiClient& client, const v1::Job& job) {
  constexpr double kPatienceSeconds = 2;
  if (job.step() < 1) return std::nullopt;
  const auto stream = client.StreamProgress(job.name(), job.step() - 1);
  const common::MonotonicClock clock{};
  const double end = clock.Now() + kPatienceSeconds;
  v1::JobProgress progress;
  for (double left = kPatienceSeconds; left > 0; left = end - clock.Now()) {
    if (stream->Next(left, &progress) != Stream<v1::JobProgress>::Event::kMessage) break;
    if (progress.has_step()) return progress.step();
  }
  return std::nullopt;
}

int GetPlanFamilies(ApiClient& client, const std::string& output, Terminal& terminal) {
  const auto listed = client.ListPlanFamilies();
  if (!listed.ok()) return FailCall(listed.status(), terminal);
  const planner::LearnedFamilies& families = listed->families();
  if (IsStructured(output)) {
    terminal.Out(ToText(PlanFamiliesJson(families), output));
  } else if (output == "name") {
    for (const v1::PlanFamily& family : families) {
      terminal.Out(absl::StrCat(family.workload(), "; ", family.layout(), "\n"));
    }
  } else if (families.empty()) {
    terminal.Say(
        "no steps were compared yet — jobs on machines that strata calibrate has measured teach "
        "after 16 steps");
  } else {
    terminal.Out(PlanFamiliesTable(families, common::WallSeconds()));
  }
  return kExitDone;
}

int GetOneJob(ApiClient& client, const std::string& name, const std::string& output, bool described,
              Terminal& terminal) {
  const absl::StatusOr<v1::Job> job = client.GetJob(JobResource(name));
  if (!job.ok()) return FailCallAbout("job", name, job.status(), terminal);
  if (IsStructured(output)) {
    Json json = ToJsonWithSpec(*job);
    const auto last_step = described ? LastRecord(client, *job) : std::nullopt;
    if (last_step.has_value()) json["last_step"] = StepJson(*last_step);
    terminal.Out(ToText(json, output));
  } else if (output == "name") {
    terminal.Out(PlainName(job->name()) + "\n");
  } else if (!described) {
    terminal.Out(JobTable({*job}, common::WallSeconds()));
  } else {
    constexpr int32_t kLastEvents = 10;
    absl::StatusOr<std::vector<v1::JobEvent>> events =
        client.ListJobEvents(JobResource(name), kLastEvents);
    if (!events.ok()) return FailCallAbout("job", name, events.status(), terminal);
    std::reverse(events->begin(), events->end());
    terminal.Out(DescribeJob(*job, LastRecord(client, *job), *events, common::WallSeconds()));
  }
  return kExitDone;
}

// Whether `kind` is one of them; tells if not.
bool CheckKind(const char* command, const std::string& kind, const std::vector<std::string>& kinds,
               Terminal& terminal) {
  if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) return true;
  const std::string nearest = spec::Nearest(kind, kinds);
  terminal.Error(absl::StrCat("strata ", command, ": unknown kind ", spec::Shown(kind),
                              " (the kinds are ", absl::StrJoin(kinds, ", "), ")",
                              nearest.empty() ? "" : " — did you mean ", nearest,
                              nearest.empty() ? "" : "?"));
  return false;
}

std::vector<Flag> GetFlags() {
  std::vector<Flag> flags = FilterFlags();
  flags.push_back({"--order-by", Flag::Kind::kText, "FIELDS",
                   "such as 'create_time desc' (name, state, priority, create_time, end_time, "
                   "step)"});
  flags.push_back({"--show-labels", Flag::Kind::kSwitch, "", "a column with the jobs' labels"});
  flags.push_back(
      {"--watch", Flag::Kind::kSwitch, "", "nodes: go on with each that changes", "-w"});
  return flags;
}

int Get(const Arguments& arguments, Terminal& terminal) {
  const auto& words = arguments.positional();
  static const auto& kinds = *new std::vector<std::string>{
      "jobs",  "nodes", "projects", "queues",  "policy", "plan-families",
      "audit", "job",   "node",     "project", "queue"};
  if (!CheckKind("get", words[0], kinds, terminal)) return kExitUsage;
  const bool families = words[0] == "plan-families";
  if ((words[0] == "policy" || families) && words.size() > 1) {
    terminal.Error(absl::StrCat("strata get: unexpected argument ", spec::Shown(words[1]),
                                families ? ": all are listed" : ": there is one policy"));
    return kExitUsage;
  }
  for (const Flag& flag : GetFlags()) {
    const std::string kind = flag.name == "--watch" ? "nodes" : "jobs";
    const bool listed = words.size() == 1 && absl::StartsWith(kind, words[0]);
    if (listed || !arguments.Has(flag.name)) continue;
    terminal.Error(absl::StrCat("strata get ", words[0], ": ", flag.name, " is for all ", kind,
                                kind == "nodes" ? "; strata watch NAME follows a job" : ""));
    return kExitUsage;
  }
  const std::string output = arguments.Text("--output", "table");
  if (arguments.Has("--watch") && output != "table" && output != "json") {
    terminal.Error("strata get nodes: --watch goes with -o table or json");
    return kExitUsage;
  }
  int code = kExitDone;
  const auto client = Reach(arguments, terminal, code);
  if (client == nullptr) return code;
  const std::string name = words.size() == 1 ? "" : words[1];
  if (words[0] == "audit") return GetAudit(*client, name, output, terminal);
  if (words[0] == "policy") return GetWholePolicy(*client, output, terminal);
  if (families) return GetPlanFamilies(*client, output, terminal);
  if (arguments.Has("--watch")) return WatchNodes(*client, output, terminal);
  if (absl::StartsWith(words[0], "node")) {
    return name.empty() ? GetNodes(*client, output, terminal)
                        : GetOneNode(*client, name, output, /*described=*/false, terminal);
  }
  if (absl::StartsWith(words[0], "project")) return GetProjects(*client, name, output, terminal);
  if (absl::StartsWith(words[0], "queue")) return GetQueues(*client, name, output, terminal);
  return name.empty() ? GetJobs(*client, arguments, output, terminal)
                      : GetOneJob(*client, name, output, /*described=*/false, terminal);
}

// `describe job NAME`, `describe NAME`, `describe node NAME` and `describe model JOB.yaml`.
int Describe(const Arguments& arguments, Terminal& terminal) {
  const auto& words = arguments.positional();
  if (words.size() == 2 && !CheckKind("describe", words[0], {"job", "node", "model"}, terminal)) {
    return kExitUsage;
  }
  if (words.size() == 2 && words[0] == "model") {
    return DescribeModel(words[1], arguments.Text("--output", "table"), terminal);
  }
  int code = kExitDone;
  const auto client = Reach(arguments, terminal, code);
  if (client == nullptr) return code;
  const std::string output = arguments.Text("--output", "table");
  const bool node = words.size() == 2 && words[0] == "node";
  return node ? GetOneNode(*client, words[1], output, /*described=*/true, terminal)
              : GetOneJob(*client, words.back(), output, /*described=*/true, terminal);
}

int Explain(const Arguments& arguments, Terminal& terminal) {
  const std::string& name = arguments.positional()[0];
  int code = kExitDone;
  const auto client = Reach(arguments, terminal, code);
  if (client == nullptr) return code;
  const auto explained = client->ExplainJob(JobResource(name));
  if (!explained.ok()) return FailCallAbout("job", name, explained.status(), terminal);
  const std::string output = arguments.Text("--output", "table");
  if (IsStructured(output)) {
    terminal.Out(ToText(ExplanationJson(name, *explained), output));
  } else if (output == "name") {
    terminal.Out(PlainName(name) + "\n");
  } else {
    terminal.Out(ExplanationText(*explained));
  }
  return kExitDone;
}

int Events(const Arguments& arguments, Terminal& terminal) {
  const std::string& name = arguments.positional()[0];
  int code = kExitDone;
  const auto client = Reach(arguments, terminal, code);
  if (client == nullptr) return code;
  const auto most = static_cast<int32_t>(arguments.Count("--limit").value_or(0));
  absl::StatusOr<std::vector<v1::JobEvent>> events = client->ListJobEvents(JobResource(name), most);
  if (!events.ok()) return FailCallAbout("job", name, events.status(), terminal);
  std::reverse(events->begin(), events->end());  // the newest stands nearest to the prompt
  const std::string output = arguments.Text("--output", "table");
  if (IsStructured(output)) {
    Json list = Json::array();
    for (const v1::JobEvent& event : *events) list.push_back(ToJson(event));
    terminal.Out(ToText(list, output));
  } else if (output == "name") {
    terminal.Out(PlainName(name) + "\n");
  } else {
    terminal.Out(EventTable(*events, common::WallSeconds()));
  }
  return kExitDone;
}

}  // namespace

std::vector<Command> QueryCommands() {
  return {
      ClusterCommand(
          "get", "jobs|nodes|projects|queues [NAME], policy, plan-families, audit [FILTER]",
          "List what the cluster has",
          {"jobs, nodes, projects, queues, policy, plan-families or audit"}, 2, GetFlags(), Get),
      ClusterCommand("describe", "job NAME|node NAME|model JOB.yaml",
                     "Tell everything about a job, a node or a job file's model", {"NAME"}, 2, {},
                     Describe),
      ClusterCommand("explain", "NAME", "Say why a job waits, or why it was placed where it is",
                     {"NAME"}, 1, {}, Explain),
      ClusterCommand(
          "events", "NAME [--limit N]", "List what happened to a job, oldest first", {"NAME"}, 1,
          {{"--limit", Flag::Kind::kCount, "N", "only the last so many", "", 1, 1000}}, Events),
  };
}

}  // namespace strata::client
