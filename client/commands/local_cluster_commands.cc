// up, down, and the supervisor that up starts.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/commands/cluster_call.h"
#include "client/commands/registry.h"
#include "client/exit_codes.h"
#include "client/interrupts.h"
#include "client/job_loading.h"
#include "client/local_cluster/stop.h"
#include "client/local_cluster/supervisor.h"
#include "client/local_cluster/up.h"
#include "client/machine.h"
#include "client/server_address.h"
#include "client/terminal/table.h"
#include "client/views/job_view.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "common/units.h"

namespace strata::client {
namespace {

namespace fs = std::filesystem;

// --dir, else that of the last `up` (for `down` only), else `cluster` below the user's state.
absl::StatusOr<std::string> ClusterDirectory(const Arguments& arguments, bool last_one) {
  if (arguments.Has("--dir")) return Absolute(arguments.Text("--dir"));
  const RememberedCluster last = ReadRememberedCluster();
  if (last_one && !last.directory.empty()) return last.directory;
  const std::string file = RememberedServerFile();
  if (!file.empty()) return (fs::path(file).parent_path() / "cluster").string();
  return absl::InvalidArgumentError("neither HOME nor XDG_STATE_HOME is set — name a --dir");
}

// The controller answers and all nodes are READY. `client` is kept while a connection is on its
// way, which on a busy machine takes longer than one call.
absl::Status Probe(const ClusterShape& shape, std::unique_ptr<ApiClient>& client) {
  const ServerAddress address = shape.listen.Reached();
  ApiOptions options;
  options.deadline_seconds = 1;
  options.patience_seconds = 0;
  if (client == nullptr || client->address().ToString() != address.ToString()) {
    client = MakeApiClient(address, options);
  }
  const absl::StatusOr<v1::ListNodesResponse> nodes = client->ListNodes();
  if (!nodes.ok()) {
    if (!absl::IsDeadlineExceeded(nodes.status())) client.reset();
    return absl::UnavailableError("the controller");
  }
  std::vector<std::string> missing;
  for (const ClusterNode& wanted : shape.nodes) {
    const bool ready =
        std::any_of(nodes->nodes().begin(), nodes->nodes().end(), [&](const v1::Node& node) {
          return PlainName(node.name()) == wanted.name && node.state() == v1::Node::READY;
        });
    if (!ready) missing.push_back(wanted.name);
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("node ", absl::StrJoin(missing, ", ")));
}

Json UpJson(const UpResult& result, const std::string& directory) {
  Json processes = Json::array();
  for (const auto& [name, process] : result.processes) {
    processes.push_back({{"name", name}, {"pid", process.id.pid}});
  }
  return {{"directory", directory},
          {"server", result.shape.listen.ToString()},
          {"metrics_address", absl::StrCat("http://", result.shape.metrics.ToString(), "/metrics")},
          {"topology", result.shape.has_topology ? Json(directory + "/topology.yaml") : Json()},
          {"adopted", result.adopted},
          {"processes", processes}};
}

void ShowUp(const UpResult& result, const std::string& directory, const std::string& output,
            Terminal& terminal) {
  if (output == "json" || output == "yaml") {
    return terminal.Out(ToText(UpJson(result, directory), output));
  }
  if (output == "name") {
    for (const auto& [name, process] : result.processes) terminal.Out(name + "\n");
    return;
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, process] : result.processes) {
    rows.push_back(
        {name, absl::StrCat(process.id.pid), absl::StrCat(directory, "/log/", name, ".log")});
  }
  terminal.Out(FormatTable({"PROCESS", "PID", "LOG"}, rows));
  terminal.Out(absl::StrCat("server   ", result.shape.listen.ToString(), "\nmetrics  http://",
                            result.shape.metrics.ToString(), "/metrics\n"));
  if (result.shape.has_topology) {
    terminal.Out(absl::StrCat("topology ", directory, "/topology.yaml\n"));
  }
  terminal.Say("next: strata submit JOB.yaml --attach; strata down ends all of it");
}

absl::StatusOr<UpOptions> ReadUpOptions(const Arguments& arguments) {
  UpOptions options;
  if (arguments.Has("--topology")) {
    ASSIGN_OR_RETURN(options.topology, ReadLocalTopology(arguments.Text("--topology")));
  }
  const absl::StatusOr<std::string> directory = ClusterDirectory(arguments, false);
  if (!directory.ok()) return directory.status();
  options.directory = *directory;
  if (const auto agents = arguments.Count("--agents"); agents.has_value()) {
    options.agents = static_cast<int>(*agents);
  }
  if (arguments.Has("--listen")) {
    const absl::StatusOr<ServerAddress> listen = ParseServerAddress(arguments.Text("--listen"));
    if (!listen.ok()) return listen.status();
    options.listen = *listen;
  }
  options.insecure_listen = arguments.Has("--insecure-listen");
  const std::vector<std::string> nodes = arguments.All("--no-restart");
  options.no_restart = {nodes.begin(), nodes.end()};
  options.binaries = BinaryFolder();
  for (const char* name : {"strata-controller", "strata-worker"}) {
    const std::string path = absl::StrCat(options.binaries, "/", name);
    if (access(path.c_str(), X_OK) == 0) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": not there — the binaries belong in one folder (./dev build)"));
  }
  std::error_code error;
  options.program = fs::read_symlink("/proc/self/exe", error).string();
  return options;
}

int UpExitCode(const absl::Status& status) {
  if (absl::IsInvalidArgument(status) || absl::IsUnimplemented(status)) return kExitUsage;
  if (absl::IsCancelled(status)) return kExitInterrupted;
  if (absl::IsUnavailable(status)) return kExitUnavailable;
  return kExitFailed;
}

int Up(const Arguments& arguments, Terminal& terminal) {
  const absl::StatusOr<UpOptions> options = ReadUpOptions(arguments);
  if (!options.ok()) return Fail(options.status(), terminal);
  const common::MonotonicClock clock{};
  const InterruptScope interrupts;
  const double began = clock.Now();
  double told = began;
  UpHooks hooks;
  std::unique_ptr<ApiClient> client;
  hooks.probe = [&](const ClusterShape& shape) { return Probe(shape, client); };
  hooks.say = [&](const std::string& text) { terminal.Say(text); };
  hooks.go_on = [&] { return !interrupts.interrupted(); };
  hooks.waiting = [&](const std::string& what) {
    const double now = clock.Now();
    const std::string line = absl::StrCat("waiting for ", what, " … ",
                                          common::FormatSeconds(std::max(1.0, now - began)));
    terminal.Transient(line);
    if (terminal.options().animate || now - told < 1) return;
    told = now;
    terminal.Say(line);
  };
  const absl::StatusOr<UpResult> result = BringUp(*options, hooks, clock);
  if (!result.ok()) {
    terminal.Error(absl::StrCat("strata up: ", absl::string_view(result.status().message())));
    return UpExitCode(result.status());
  }
  const absl::Status remembered =
      RememberCluster({result->shape.listen.ToString(), options->directory});
  if (!remembered.ok()) terminal.Say(std::string(remembered.message()));
  terminal.Say(absl::StrCat("cluster of ", result->shape.nodes.size(),
                            result->shape.nodes.size() == 1 ? " node" : " nodes", " ready after ",
                            common::FormatSeconds(clock.Now() - began), ", in ",
                            options->directory));
  ShowUp(*result, options->directory, arguments.Text("--output", "table"), terminal);
  return kExitDone;
}

void ShowDown(const std::string& directory, bool ran, const std::string& output,
              Terminal& terminal) {
  if (output == "name") return terminal.Out(directory + "\n");
  if (output == "table") return;
  terminal.Out(ToText({{"directory", directory}, {"was_running", ran}}, output));
}

int Down(const Arguments& arguments, Terminal& terminal) {
  const absl::StatusOr<std::string> directory = ClusterDirectory(arguments, true);
  if (!directory.ok()) return Fail(directory.status(), terminal);
  const ClusterFolder folder(*directory);
  // Its processes are ended also where the folder itself is gone.
  const absl::StatusOr<ClusterShape> shape = folder.ReadShape();
  const bool known = !absl::IsNotFound(shape.status());
  const common::MonotonicClock clock{};
  const double began = clock.Now();
  double told = began;
  const auto waiting = [&] {
    const double now = clock.Now();
    const std::string line = absl::StrCat("ending the processes of ", *directory, " … ",
                                          common::FormatSeconds(std::max(1.0, now - began)));
    terminal.Transient(line);
    if (terminal.options().animate || now - told < 1) return;
    told = now;
    terminal.Say(line);
  };
  const absl::StatusOr<bool> ran = StopCluster(folder, StopPatience(), waiting, clock);
  if (!ran.ok()) return Fail(ran.status(), terminal);
  if (ReadRememberedCluster().directory == *directory) ForgetCluster();
  if (!*ran && !known && arguments.Has("--dir")) {
    return Fail(absl::NotFoundError(absl::StrCat(*directory, ": no cluster was started there")),
                terminal);
  }
  std::string next = absl::StrCat("strata up --dir ", *directory, " goes on with it");
  if (!known) next = "its folder was gone already";
  if (known && !shape.ok()) next = std::string(shape.status().message());
  if (const std::string original = folder.RunningOriginal(); !original.empty()) {
    terminal.Say(absl::StrCat(*directory, " is a copy of ", original,
                              ", whose cluster goes on: strata down --dir ", original,
                              " would end that one"));
  }
  terminal.Say(!known && !*ran ? std::string("no cluster is up")
               : *ran          ? absl::StrCat("the cluster in ", *directory, " is down; ", next)
                               : absl::StrCat("nothing ran in ", *directory));
  ShowDown(*directory, *ran, arguments.Text("--output", "table"), terminal);
  return kExitDone;
}

int Supervise(const Arguments& arguments, Terminal&) {
  const common::MonotonicClock clock{};
  return RunSupervisor(Absolute(arguments.Text("--dir")), clock);
}

}  // namespace

std::vector<Command> LocalClusterCommands() {
  constexpr auto kText = Flag::Kind::kText;
  const Flag dir = {"--dir", kText, "D", "where the cluster keeps its state"};
  Flag no_restart = {"--no-restart", kText, "NODE", "do not start this node's agent again"};
  no_restart.repeated = true;
  Flag required_dir = dir;
  required_dir.required = true;
  Command supervise = ClusterCommand("supervise", "--dir D",
                                     "Keep a local cluster's processes running (started by up)", {},
                                     0, {required_dir}, Supervise);
  supervise.listed = false;
  return {
      ClusterCommand("up", "[--agents N | --topology F] [--dir D] [--listen ADDR]",
                     "Start a whole local cluster", {}, 0,
                     {{"--agents", Flag::Kind::kCount, "N", "nodes, n0, n1, …", "", 1, 1024},
                      {"--topology", kText, "F",
                       "nodes, names and places of this topology file, with cpu devices"},
                      {"--listen", kText, "ADDR",
                       "where the controller listens, HOST:PORT or unix:PATH; else a socket that "
                       "is yours alone"},
                      {"--insecure-listen", Flag::Kind::kSwitch, "",
                       "allow an address that other machines reach: nothing is encrypted"},
                      no_restart,
                      dir},
                     Up),
      ClusterCommand("down", "[--dir D]", "Stop the local cluster", {}, 0, {dir}, Down),
      supervise,
  };
}

}  // namespace strata::client
