// get, describe, explain, cancel: one question each.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/commands/cluster_call.h"
#include "client/exit_codes.h"
#include "client/views/job_view.h"
#include "client/views/node_view.h"
#include "common/clock.h"
#include "spec/problems.h"
#include "spec/suggest.h"

namespace strata::client {
namespace {

bool Structured(const std::string& output) { return output == "json" || output == "yaml"; }

int GetJobs(ApiClient& client, const std::string& output, Terminal& terminal) {
  const absl::StatusOr<std::vector<v1::Job>> jobs = client.ListJobs();
  if (!jobs.ok()) return FailCall(jobs.status(), terminal);
  if (Structured(output)) {
    Json list = Json::array();
    for (const v1::Job& job : *jobs) list.push_back(ToJson(job));
    terminal.Out(ToText(list, output));
  } else if (output == "name") {
    for (const v1::Job& job : *jobs) terminal.Out(PlainName(job.name()) + "\n");
  } else if (jobs->empty()) {
    terminal.Say("no jobs yet — strata submit JOB.yaml");
  } else {
    terminal.Out(JobTable(*jobs, common::WallSeconds()));
  }
  return kExitDone;
}

int ShowNodes(const std::vector<v1::Node>& nodes, const std::string& output, Terminal& terminal) {
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
  const absl::StatusOr<std::vector<v1::Node>> nodes = client.ListNodes();
  if (!nodes.ok()) return FailCall(nodes.status(), terminal);
  if (!Structured(output)) return ShowNodes(*nodes, output, terminal);
  Json list = Json::array();
  for (const v1::Node& node : *nodes) list.push_back(ToJson(node));
  terminal.Out(ToText(list, output));
  return kExitDone;
}

int GetNode(ApiClient& client, const std::string& name, const std::string& output,
            Terminal& terminal) {
  const absl::StatusOr<v1::Node> node = client.GetNode(NodeResource(name));
  if (!node.ok()) return FailCallAbout("node", name, node.status(), terminal);
  if (!Structured(output)) return ShowNodes({*node}, output, terminal);
  terminal.Out(ToText(ToJson(*node), output));
  return kExitDone;
}

int ShowJob(const v1::Job& job, const std::string& output, bool described, Terminal& terminal) {
  if (Structured(output)) {
    terminal.Out(ToText(ToJsonWithSpec(job), output));
  } else if (output == "name") {
    terminal.Out(PlainName(job.name()) + "\n");
  } else {
    terminal.Out(described ? DescribeJob(job, common::WallSeconds())
                           : JobTable({job}, common::WallSeconds()));
  }
  return kExitDone;
}

int GetOneJob(ApiClient& client, const std::string& name, const std::string& output, bool described,
              Terminal& terminal) {
  const absl::StatusOr<v1::Job> job = client.GetJob(JobResource(name));
  if (!job.ok()) return FailCallAbout("job", name, job.status(), terminal);
  return ShowJob(*job, output, described, terminal);
}

int Get(const Arguments& arguments, Terminal& terminal) {
  const auto& words = arguments.positional();
  static const auto& kinds = *new std::vector<std::string>{"jobs", "nodes", "job", "node"};
  const bool known = std::find(kinds.begin(), kinds.end(), words[0]) != kinds.end();
  if (!known) {
    const std::string nearest = spec::Nearest(words[0], kinds);
    terminal.Error(absl::StrCat("strata get: unknown kind ", spec::Shown(words[0]),
                                " (the kinds are ", absl::StrJoin(kinds, ", "), ")",
                                nearest.empty() ? "" : " — did you mean ", nearest,
                                nearest.empty() ? "" : "?"));
    return kExitUsage;
  }
  const bool plural = absl::EndsWith(words[0], "s");
  if (plural != (words.size() == 1)) {
    terminal.Error(plural ? absl::StrCat("strata get: unexpected argument ", words[1])
                          : absl::StrCat("strata get ", words[0], ": NAME is missing"));
    return kExitUsage;
  }
  int code = kExitDone;
  const auto client = Reach(arguments, terminal, code);
  if (client == nullptr) return code;
  const std::string output = arguments.Text("--output", "table");
  if (words[0] == "jobs") return GetJobs(*client, output, terminal);
  if (words[0] == "nodes") return GetNodes(*client, output, terminal);
  if (words[0] == "node") return GetNode(*client, words[1], output, terminal);
  return GetOneJob(*client, words[1], output, /*described=*/false, terminal);
}

// `describe job NAME` and `describe NAME`.
int Describe(const Arguments& arguments, Terminal& terminal) {
  const auto& words = arguments.positional();
  if (words.size() == 2 && words[0] != "job") {
    terminal.Error(absl::StrCat("unknown kind ", spec::Shown(words[0]), " — did you mean job?"));
    return kExitUsage;
  }
  int code = kExitDone;
  const auto client = Reach(arguments, terminal, code);
  if (client == nullptr) return code;
  return GetOneJob(*client, words.back(), arguments.Text("--output", "table"), /*described=*/true,
                   terminal);
}

int Explain(const Arguments& arguments, Terminal& terminal) {
  const std::string& name = arguments.positional()[0];
  int code = kExitDone;
  const auto client = Reach(arguments, terminal, code);
  if (client == nullptr) return code;
  const auto lines = client->ExplainJob(JobResource(name));
  if (!lines.ok()) return FailCallAbout("job", name, lines.status(), terminal);
  const std::string output = arguments.Text("--output", "table");
  if (Structured(output)) {
    terminal.Out(ToText({{"name", PlainName(name)}, {"lines", *lines}}, output));
  } else if (output == "name") {
    terminal.Out(PlainName(name) + "\n");
  } else {
    for (const std::string& line : *lines) terminal.Out(line + "\n");
  }
  return kExitDone;
}

int Cancel(const Arguments& arguments, Terminal& terminal) {
  const std::string& name = arguments.positional()[0];
  int code = kExitDone;
  const auto client = Reach(arguments, terminal, code);
  if (client == nullptr) return code;
  const absl::StatusOr<v1::Job> job = client->CancelJob(JobResource(name));
  if (!job.ok()) return FailCallAbout("job", name, job.status(), terminal);
  const std::string plain = PlainName(job->name());
  const std::string output = arguments.Text("--output", "table");
  if (output != "table") return ShowJob(*job, output, false, terminal);
  if (job->state() == v1::CANCELLED) {
    terminal.Say(absl::StrCat("job ", plain, " is CANCELLED"));
  } else if (IsTerminal(job->state())) {
    terminal.Say(absl::StrCat("job ", plain, " had ended: ", v1::JobState_Name(job->state())));
  } else {
    terminal.Say(absl::StrCat("job ", plain, " is being cancelled — strata wait ", plain,
                              " --for=state=CANCELLED"));
  }
  return kExitDone;
}

}  // namespace

std::vector<Command> QueryCommands() {
  return {
      ClusterCommand("get", "jobs|nodes|job NAME|node NAME", "List what the cluster has",
                     {"jobs, nodes or job NAME"}, 2, {}, Get),
      ClusterCommand("describe", "job NAME", "Tell everything about a job", {"NAME"}, 2, {},
                     Describe),
      ClusterCommand("explain", "NAME", "Say why a job waits, or why it was placed where it is",
                     {"NAME"}, 1, {}, Explain),
      ClusterCommand("cancel", "NAME", "End a job", {"NAME"}, 1, {}, Cancel),
  };
}

}  // namespace strata::client
