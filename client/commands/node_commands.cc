// drain, resume: nodes that take no new ranks for a while; resume also of suspended jobs.
#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/api/errors.h"
#include "client/commands/changed_jobs.h"
#include "client/commands/cluster_call.h"
#include "client/exit_codes.h"
#include "client/interrupts.h"
#include "client/views/job_view.h"
#include "client/views/node_view.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "common/units.h"

namespace strata::client {
namespace {

constexpr size_t kMostNodes = 1000;
constexpr double kPollSeconds = 0.25;

// Before any is changed, so that a misspelt name changes nothing.
int CheckNodes(ApiClient& client, const std::vector<std::string>& names, Terminal& terminal) {
  for (const std::string& name : names) {
    const absl::StatusOr<v1::Node> node = client.GetNode(NodeResource(name));
    if (!node.ok()) return FailCallAbout("node", name, node.status(), terminal);
  }
  return kExitDone;
}

void ShowNodes(const std::vector<v1::Node>& nodes, const std::string& output, Terminal& terminal) {
  if (IsStructured(output)) {
    Json list = Json::array();
    for (const v1::Node& node : nodes) list.push_back(ToJson(node));
    terminal.Out(ToText(list, output));
  } else if (output == "name") {
    for (const v1::Node& node : nodes) terminal.Out(PlainName(node.name()) + "\n");
  }
}

std::string JobsOf(const v1::Node& node) {
  std::vector<std::string> jobs;
  for (const std::string& job : node.jobs()) jobs.push_back(PlainName(job));
  return absl::StrJoin(jobs, ", ");
}

// "n1 (a, b)", of those that still have ranks.
std::vector<std::string> Occupied(const std::vector<v1::Node>& nodes) {
  std::vector<std::string> texts;
  for (const v1::Node& node : nodes) {
    if (node.jobs().empty()) continue;
    texts.push_back(absl::StrCat(PlainName(node.name()), " (", JobsOf(node), ")"));
  }
  return texts;
}

// Polls until no node has ranks. A controller that is away meanwhile is waited for, too.
int WaitUntilEmpty(ApiClient& client, std::vector<v1::Node>& nodes, std::optional<double> timeout,
                   Terminal& terminal) {
  const common::MonotonicClock clock{};
  const InterruptScope interrupts;
  const double began = clock.Now();
  bool lost = false;
  for (;;) {
    const std::vector<std::string> occupied = Occupied(nodes);
    if (occupied.empty()) return kExitDone;
    const double waited = clock.Now() - began;
    if (interrupts.interrupted()) return kExitInterrupted;
    if (timeout.has_value() && waited >= *timeout) {
      terminal.Error(absl::StrCat("after ", common::FormatSeconds(*timeout),
                                  " there are still ranks on ", absl::StrJoin(occupied, ", "),
                                  " — strata explain JOB tells what it waits for"));
      return kExitUnavailable;
    }
    terminal.Transient(absl::StrCat("ranks on ", absl::StrJoin(occupied, ", "), " … ",
                                    common::FormatSeconds(std::max(1.0, waited))));
    std::this_thread::sleep_for(std::chrono::duration<double>(kPollSeconds));
    for (v1::Node& node : nodes) {
      absl::StatusOr<v1::Node> now = client.GetNode(node.name());
      if (now.ok()) {
        node = *std::move(now);
        lost = false;
      } else if (!absl::IsUnavailable(now.status()) && !absl::IsDeadlineExceeded(now.status())) {
        return FailCallAbout("node", node.name(), now.status(), terminal);
      } else if (!std::exchange(lost, true)) {
        terminal.Say(absl::StrCat(absl::string_view(now.status().message()), "; waiting for it"));
      }
    }
  }
}

std::vector<std::string> NamesOnce(const std::vector<std::string>& typed) {
  std::set<std::string> seen;
  std::vector<std::string> names;
  for (const std::string& name : typed) {
    const std::string resource = NodeResource(name);
    if (seen.insert(resource).second) names.push_back(resource);
  }
  return names;
}

// Of all of them, as they are after it; the names exist.
using Change = std::function<absl::StatusOr<std::vector<v1::Node>>(
    ApiClient&, const std::vector<std::string>& names)>;
using Told = std::string (*)(const v1::Node& changed);  // what it is now

int ChangeNodes(const Arguments& arguments, Terminal& terminal, const Change& change, Told told) {
  int code = kExitDone;
  const auto client = Reach(arguments, terminal, code);
  if (client == nullptr) return code;
  const std::vector<std::string> names = NamesOnce(arguments.positional());
  // A wrong name among several is told before anything is changed; of one its own call tells.
  if (names.size() > 1) code = CheckNodes(*client, names, terminal);
  if (code != kExitDone) return code;
  absl::StatusOr<std::vector<v1::Node>> changed = change(*client, names);
  if (!changed.ok()) {
    return FailCall(AtFlags(changed.status(), {{"reason", "--reason"}}), terminal);
  }
  std::vector<v1::Node> nodes = *std::move(changed);
  for (const v1::Node& node : nodes) {
    terminal.Say(absl::StrCat("node ", PlainName(node.name()), " is ", told(node)));
  }
  if (arguments.Has("--wait")) {
    code = WaitUntilEmpty(*client, nodes, arguments.Seconds("--timeout"), terminal);
    if (code == kExitDone) terminal.Say("no ranks are left there");
  }
  ShowNodes(nodes, arguments.Text("--output", "table"), terminal);
  return code;
}

std::string DrainedText(const v1::Node& node) {
  const std::string jobs = JobsOf(node);
  return absl::StrCat("drained: it takes no new ranks",
                      jobs.empty() ? ""
                                   : absl::StrCat("; it has ranks of ", jobs,
                                                  ", which stay until they have room elsewhere"));
}

std::string ResumedText(const v1::Node& node) {
  return absl::StrCat(NodeStateText(node), ": it takes ranks ",
                      node.state() == v1::Node::READY ? "again" : "when it is READY");
}

// Together, so that no job moves from one of them to another.
absl::StatusOr<std::vector<v1::Node>> DrainAll(ApiClient& client,
                                               const std::vector<std::string>& names,
                                               const std::string& reason) {
  v1::DrainNodesRequest request;
  request.mutable_names()->Add(names.begin(), names.end());
  request.set_reason(reason);
  const absl::StatusOr<v1::DrainNodesResponse> drained = client.DrainNodes(request);
  if (drained.ok()) return std::vector<v1::Node>(drained->nodes().begin(), drained->nodes().end());
  if (!absl::IsUnimplemented(drained.status())) return drained.status();
  std::vector<v1::Node> nodes;  // by a controller of the release before
  for (const std::string& name : names) {
    v1::DrainNodeRequest one;
    one.set_name(name);
    one.set_reason(reason);
    ASSIGN_OR_RETURN(nodes.emplace_back(), client.DrainNode(one));
  }
  return nodes;
}

int Drain(const Arguments& arguments, Terminal& terminal) {
  const auto drain = [&arguments](ApiClient& client, const std::vector<std::string>& names) {
    return DrainAll(client, names, arguments.Text("--reason"));
  };
  return ChangeNodes(arguments, terminal, drain, DrainedText);
}

// What is meant by `resume job NAME…` and `resume jobs/NAME…`; nothing: nodes are.
std::vector<std::string> JobsToResume(const std::vector<std::string>& typed) {
  const bool said = typed[0] == "job" || typed[0] == "jobs";
  if (said) return {typed.begin() + 1, typed.end()};
  const bool jobs = std::all_of(typed.begin(), typed.end(), [](const std::string& name) {
    return absl::StartsWith(name, "jobs/");
  });
  return jobs ? typed : std::vector<std::string>();
}

int ResumeJobs(const std::vector<std::string>& names, const Arguments& arguments,
               Terminal& terminal) {
  int code = kExitDone;
  const auto client = Reach(arguments, terminal, code);
  if (client == nullptr) return code;
  const auto resume = [&](const std::string& name) {
    v1::ResumeJobRequest request;
    request.set_name(name);
    return client->ResumeJob(request);
  };
  const std::string output = arguments.Text("--output", "table");
  return ChangeJobs(names, output, terminal, resume, [](const v1::Job& job) {
    return absl::StrCat("job ", PlainName(job.name()),
                        " goes on: ", v1::Job::State_Name(job.state()),
                        job.reason().empty() ? "" : ", ", job.reason());
  });
}

int Resume(const Arguments& arguments, Terminal& terminal) {
  const auto& words = arguments.positional();
  if (const auto jobs = JobsToResume(words); !jobs.empty()) {
    return ResumeJobs(jobs, arguments, terminal);
  }
  const auto resume =
      [](ApiClient& client,
         const std::vector<std::string>& names) -> absl::StatusOr<std::vector<v1::Node>> {
    std::vector<v1::Node> nodes;
    for (const std::string& name : names) {
      v1::ResumeNodeRequest request;
      request.set_name(name);
      ASSIGN_OR_RETURN(nodes.emplace_back(), client.ResumeNode(request));
    }
    return nodes;
  };
  const int code = ChangeNodes(arguments, terminal, resume, ResumedText);
  if (code == kExitNotFound) {
    terminal.Say(absl::StrCat("a suspended job is resumed by strata resume job ", words[0]));
  }
  return code;
}

}  // namespace

std::vector<Command> NodeCommands() {
  return {
      ClusterCommand(
          "drain", "NODE… [--wait] [--timeout TIME]",
          "Take no new ranks on nodes, and move those that are there", {"NODE"}, kMostNodes,
          {{"--reason", Flag::Kind::kText, "TEXT", "told with the node"},
           {"--wait", Flag::Kind::kSwitch, "", "return when no ranks are left there"},
           {"--timeout", Flag::Kind::kTime, "TIME", "wait no longer than this, such as 90s"}},
          Drain),
      ClusterCommand("resume", "NODE…|job NAME…",
                     "Let drained or quarantined nodes take ranks again, or suspended jobs go on",
                     {"NODE"}, kMostNodes, {}, Resume),
  };
}

}  // namespace strata::client
