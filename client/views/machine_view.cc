#include "client/views/machine_view.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/terminal/table.h"
#include "common/units.h"

namespace strata::client {
namespace {

using topology::Attachment;
using topology::Machine;

std::string RateText(int64_t bits_per_second) {
  return bits_per_second == 0
             ? std::string("rate unknown")
             : absl::StrCat(common::FormatDecimal(static_cast<double>(bits_per_second), "bit"),
                            "/s");
}

std::string NumaText(const Attachment& at) { return at.numa < 0 ? "-" : absl::StrCat(at.numa); }

// The nearest RDMA adapter, else the nearest of all; null without any.
const topology::NetworkAdapter* NearestAdapter(const Machine& machine, const Attachment& at) {
  const topology::NetworkAdapter* best = nullptr;
  const auto nearness = [&](const auto& adapter) { return NearnessOf(at, adapter.attachment); };
  for (const topology::NetworkAdapter& adapter : machine.adapters) {
    const bool rdma_only = best != nullptr && !best->rdma.empty() && adapter.rdma.empty();
    const bool first_rdma = best != nullptr && best->rdma.empty() && !adapter.rdma.empty();
    if (best == nullptr || first_rdma || (!rdma_only && nearness(adapter) < nearness(*best))) {
      best = &adapter;
    }
  }
  return best;
}

std::string CoresText(const topology::NumaNode& node) {
  return absl::StrCat(
      node.cores, " core", node.cores == 1 ? "" : "s",
      node.usable_cores < node.cores ? absl::StrCat(" (", node.usable_cores, " usable here)") : "",
      ", ", common::FormatBytes(static_cast<double>(node.memory_bytes)));
}

}  // namespace

std::string MachineText(const Machine& machine) {
  std::vector<std::vector<std::string>> rows;
  for (const topology::NumaNode& node : machine.numa_nodes) {
    const std::string index = absl::StrCat(node.index);
    rows.push_back({"cores", "node " + index, index, CoresText(node)});
  }
  for (const topology::Accelerator& gpu : machine.accelerators) {
    std::vector<std::string> details = {gpu.product};
    if (gpu.active_nvlinks > 0) details.push_back(absl::StrCat(gpu.active_nvlinks, " NVLinks"));
    if (!gpu.fabric_clique.empty()) details.push_back("NVLink domain " + gpu.fabric_clique);
    if (const auto* adapter = NearestAdapter(machine, gpu.attachment)) {
      details.push_back(absl::StrCat("nearest adapter ", adapter->name, " (",
                                     NameOf(NearnessOf(gpu.attachment, adapter->attachment)), ")"));
    }
    rows.push_back({"accelerator", absl::StrCat(gpu.index), NumaText(gpu.attachment),
                    absl::StrJoin(details, ", ")});
  }
  for (const topology::NetworkAdapter& adapter : machine.adapters) {
    rows.push_back({"network", adapter.name, NumaText(adapter.attachment),
                    absl::StrCat(RateText(adapter.bits_per_second), ", ",
                                 adapter.state.empty() ? "state unknown" : adapter.state,
                                 adapter.rdma.empty() ? "" : ", RDMA as ", adapter.rdma)});
  }
  for (const topology::Disk& disk : machine.disks) {
    rows.push_back({"disk", disk.name, NumaText(disk.attachment),
                    absl::StrCat(common::FormatBytes(static_cast<double>(disk.bytes)),
                                 disk.rotational ? ", rotating" : ", solid state")});
  }
  std::string text =
      absl::StrCat(machine.numa_nodes.size(), " NUMA node",
                   machine.numa_nodes.size() == 1 ? "" : "s", ", ", machine.accelerators.size(),
                   " NVIDIA accelerator", machine.accelerators.size() == 1 ? "" : "s", "\n\n",
                   FormatTable({"WHAT", "NAME", "NUMA", "DETAILS"}, rows));
  for (const std::string& note : machine.notes) absl::StrAppend(&text, "note: ", note, "\n");
  return text;
}

Json ToJson(const Machine& machine) {
  const auto attach = [](Json json, const Attachment& at) {
    json["pci"] = at.pci;
    json["bridges"] = at.bridges;
    json["numa"] = at.numa;
    return json;
  };
  Json json = {{"numa_nodes", Json::array()},
               {"accelerators", Json::array()},
               {"adapters", Json::array()},
               {"disks", Json::array()},
               {"notes", machine.notes}};
  for (const topology::NumaNode& node : machine.numa_nodes) {
    json["numa_nodes"].push_back({{"index", node.index},
                                  {"cores", node.cores},
                                  {"usable_cores", node.usable_cores},
                                  {"memory_bytes", node.memory_bytes}});
  }
  for (const topology::Accelerator& gpu : machine.accelerators) {
    json["accelerators"].push_back(attach({{"index", gpu.index},
                                           {"kind", gpu.kind},
                                           {"product", gpu.product},
                                           {"active_nvlinks", gpu.active_nvlinks},
                                           {"fabric_clique", gpu.fabric_clique}},
                                          gpu.attachment));
  }
  for (const topology::NetworkAdapter& adapter : machine.adapters) {
    json["adapters"].push_back(attach({{"name", adapter.name},
                                       {"rdma", adapter.rdma},
                                       {"state", adapter.state},
                                       {"bits_per_second", adapter.bits_per_second}},
                                      adapter.attachment));
  }
  for (const topology::Disk& disk : machine.disks) {
    json["disks"].push_back(
        attach({{"name", disk.name}, {"bytes", disk.bytes}, {"rotational", disk.rotational}},
               disk.attachment));
  }
  return json;
}

}  // namespace strata::client
