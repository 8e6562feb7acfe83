// The commands that speak to a controller. Their arguments are checked here; what they do needs the
// controller's services.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/command_line/parser.h"
#include "client/commands/registry.h"
#include "client/exit_codes.h"
#include "client/job_loading.h"
#include "client/machine.h"
#include "client/server_address.h"
#include "spec/scalars.h"
#include "spec/suggest.h"

namespace strata::client {
namespace {

constexpr absl::Duration kConnectDeadline = absl::Seconds(5);

// Reaches the controller that the flags or the environment name.
int AskServer(const Arguments& arguments, Terminal& terminal) {
  const absl::StatusOr<ServerAddress> address = ResolveServer(arguments.Text("--server"));
  if (!address.ok()) return Fail(address.status(), terminal);
  const absl::Status reachable = CheckReachable(*address, kConnectDeadline);
  if (!reachable.ok()) return Fail(reachable, terminal);
  terminal.Error(
      absl::StrCat(address->ToString(), " answers, but cluster commands are not supported yet"));
  return kExitUsage;
}

int Submit(const Arguments& arguments, Terminal& terminal) {
  spec::ReadOptions options;
  options.settings = arguments.All("--set");
  const absl::StatusOr<LoadedJob> job = LoadJob(arguments.positional()[0], options, UsableMemory());
  if (!job.ok()) return Fail(job.status(), terminal);
  if (!arguments.Has("--validate-only")) return AskServer(arguments, terminal);
  if (arguments.Text("--output") == "yaml") {
    terminal.Out(spec::WriteJob(job->file.job));
  } else {
    terminal.Say(absl::StrCat(job->path, ": no problem found"));
  }
  return kExitDone;
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
  return AskServer(arguments, terminal);
}

// state=SUCCEEDED, step=20
absl::Status CheckCondition(const std::string& condition) {
  static const auto& states = *new std::vector<std::string>{
      "QUEUED", "STARTING", "RUNNING", "RECOVERING", "SUCCEEDED", "FAILED", "CANCELLED"};
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("strata wait: --for=", spec::Shown(condition),
                                                   ": ", why,
                                                   " — write state=SUCCEEDED or step=N"));
  };
  const size_t equals = condition.find('=');
  if (equals == std::string::npos) return refuse("not a condition");
  const std::string value = condition.substr(equals + 1);
  if (absl::StartsWith(condition, "state=")) {
    if (std::find(states.begin(), states.end(), value) != states.end()) return absl::OkStatus();
    return refuse(absl::StrCat("unknown state (the states are ", absl::StrJoin(states, ", "), ")"));
  }
  if (absl::StartsWith(condition, "step=")) {
    const auto step = spec::ParseCount(value);
    if (step.ok() && *step >= 1) return absl::OkStatus();
    return refuse("the step must be a whole number of at least 1");
  }
  return refuse(absl::StrCat("unknown condition ", condition.substr(0, equals)));
}

int Wait(const Arguments& arguments, Terminal& terminal) {
  const absl::Status condition = CheckCondition(arguments.Text("--for"));
  if (!condition.ok()) return Fail(condition, terminal);
  return AskServer(arguments, terminal);
}

// `describe job NAME` and `describe NAME`.
int OfOneJob(const Arguments& arguments, Terminal& terminal) {
  const auto& words = arguments.positional();
  if (words.size() == 2 && words[0] != "job") {
    terminal.Error(absl::StrCat("unknown kind ", spec::Shown(words[0]), " — did you mean job?"));
    return kExitUsage;
  }
  return AskServer(arguments, terminal);
}

int NotYet(const Arguments&, Terminal& terminal) {
  terminal.Error("a local cluster is not supported yet — train in this terminal with `strata run`");
  return kExitUsage;
}

Command Named(std::string name, std::string usage, std::string summary,
              std::vector<std::string> arguments, size_t most_arguments, std::vector<Flag> flags,
              int (*run)(const Arguments&, Terminal&)) {
  Command command;
  command.name = std::move(name);
  command.usage = std::move(usage);
  command.summary = std::move(summary);
  command.arguments = std::move(arguments);
  command.most_arguments = most_arguments;
  command.flags = std::move(flags);
  command.outputs = {"table", "json", "yaml", "name"};
  command.run = run;
  return command;
}

Flag Repeated(Flag flag) {
  flag.repeated = true;
  return flag;
}

Flag Required(Flag flag) {
  flag.required = true;
  return flag;
}

}  // namespace

std::vector<Command> ClusterCommands() {
  constexpr auto kText = Flag::Kind::kText;
  constexpr auto kSwitch = Flag::Kind::kSwitch;
  constexpr auto kCount = Flag::Kind::kCount;
  const Flag dir = {"--dir", kText, "D", "where the cluster keeps its state"};
  return {
      Named("up", "[--agents N] [--dir D]", "Start a whole local cluster", {}, 0,
            {{"--agents", kCount, "N", "nodes", "", 1, 1024},
             {"--topology", kText, "F", "the topology file"},
             {"--listen", kText, "HOST:PORT", "where the controller listens"},
             {"--no-restart", kText, "NODE", "do not restart this node's agent"},
             dir},
            NotYet),
      Named("down", "[--dir D]", "Stop the local cluster", {}, 0, {dir}, NotYet),
      Named("submit", "JOB.yaml [--attach] [--validate-only] [--request-id ID]",
            "Hand a job to the cluster", {"JOB.yaml"}, 1,
            {{"--attach", kSwitch, "", "follow it and return its outcome"},
             {"--validate-only", kSwitch, "", "only check it; with -o yaml, print it completed"},
             {"--request-id", kText, "ID", "submitting again with the same one changes nothing"},
             Repeated({"--set", kText, "PATH=VALUE", "change a key of the file; may be repeated"})},
            Submit),
      Named("get", "jobs|nodes|job NAME", "List what the cluster has", {"jobs, nodes or job NAME"},
            2, {}, Get),
      Named("describe", "job NAME", "Tell everything about a job", {"NAME"}, 2, {}, OfOneJob),
      Named("watch", "NAME", "Follow a job's progress", {"NAME"}, 1, {}, OfOneJob),
      Named("logs", "NAME [--rank R] [-f]", "Show what a job's ranks wrote", {"NAME"}, 1,
            {{"--rank", kCount, "R", "of one rank", "", 0, 1 << 20},
             {"--follow", kSwitch, "", "go on as more comes", "-f"}},
            OfOneJob),
      Named("cancel", "NAME", "End a job", {"NAME"}, 1, {}, OfOneJob),
      Named("wait", "NAME --for=state=SUCCEEDED|step=N [--timeout SECONDS]",
            "Wait until a job gets there", {"NAME"}, 1,
            {Required({"--for", kText, "CONDITION", "state=STATE or step=N"}),
             {"--timeout", Flag::Kind::kNumber, "SECONDS", "give up after this long", "", 0, 1e9}},
            Wait),
      Named("explain", "NAME", "Say why a job waits, or why it was placed where it is", {"NAME"}, 1,
            {}, OfOneJob),
  };
}

}  // namespace strata::client
