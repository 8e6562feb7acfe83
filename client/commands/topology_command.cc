// strata topology: the map of a cluster, from a file or from the one that runs.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/commands/cluster_call.h"
#include "client/commands/map_file.h"
#include "client/commands/registry.h"
#include "client/exit_codes.h"
#include "client/server_address.h"
#include "client/views/machine_view.h"
#include "client/views/topology_view.h"
#include "topology/import/topology_file.h"
#include "topology/probe/probe.h"

namespace strata::client {
namespace {

int Show(const absl::StatusOr<topology::Cluster>& cluster, const Arguments& arguments,
         Terminal& terminal) {
  if (!cluster.ok()) return Fail(cluster.status(), terminal);
  const std::string output = arguments.Text("--output", "tree");
  if (output == "yaml") {
    terminal.Out(topology::WriteTopologyFile(cluster->ToDescription()));
  } else if (output == "json") {
    terminal.Out(ToJsonText(ToJson(*cluster)));
  } else if (output == "table") {
    terminal.Out(TopologyTable(*cluster));
  } else if (output == "name") {
    for (const topology::Node& node : cluster->nodes()) terminal.Out(node.name + "\n");
  } else {
    terminal.Out(TopologyTree(*cluster, terminal.options().unicode));
  }
  return kExitDone;
}

int ShowMachine(const Arguments& arguments, Terminal& terminal) {
  const auto machine = topology::Probe(topology::ProbePaths()).Read();
  if (!machine.ok()) return Fail(machine.status(), terminal);
  const std::string output = arguments.Text("--output", "tree");
  const bool structured = output == "json" || output == "yaml";
  terminal.Out(structured ? ToText(ToJson(*machine), output) : MachineText(*machine));
  return kExitDone;
}

int Topology(const Arguments& arguments, Terminal& terminal) {
  if (arguments.Has("--probe") && arguments.Has("--from")) {
    terminal.Error("--probe and --from: give one of them");
    return kExitUsage;
  }
  if (arguments.Has("--probe")) return ShowMachine(arguments, terminal);
  if (arguments.Has("--from")) {
    return Show(ReadMapFile(arguments.Text("--from"), arguments), arguments, terminal);
  }
  if (absl::IsUnavailable(ResolveServer(arguments.Text("--server")).status())) {
    terminal.Say("no cluster is known here (--server, or strata up): this machine");
    return ShowMachine(arguments, terminal);
  }
  int code = kExitDone;
  const std::unique_ptr<ApiClient> client = Reach(arguments, terminal, code);
  if (client == nullptr) return code;
  const absl::StatusOr<v1::Topology> map = client->GetTopology();
  if (!map.ok()) return FailCall(map.status(), terminal);
  if (map->nodes().empty() && !arguments.Has("--output")) {
    terminal.Say("no nodes yet — their agents register with the controller as they start");
    return kExitDone;
  }
  return Show(topology::Cluster::Make(DescribeTopology(*map)), arguments, terminal);
}

}  // namespace

Command TopologyCommand() {
  constexpr auto kText = Flag::Kind::kText;
  Command command;
  command.name = "topology";
  command.summary = "Show a cluster's map: the running one's, or that in a file (--from)";
  command.flags = {
      {"--from", kText, "FILE",
       "a topology file, kubectl get nodes -o json, Slurm's topology.conf or topology.yaml, or a "
       "Topograph model"},
      {"--probe", Flag::Kind::kSwitch, "", "what this machine has, instead of a cluster"},
  };
  const std::vector<Flag> map = MapFileFlags();
  command.flags.insert(command.flags.begin() + 1, map.begin(), map.end());
  command.outputs = {"tree", "table", "json", "yaml", "name"};
  command.run = Topology;
  return command;
}

}  // namespace strata::client
