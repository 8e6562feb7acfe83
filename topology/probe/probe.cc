#include "topology/probe/probe.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/small_file.h"
#include "common/status_macros.h"
#include "topology/nvml/nvml.h"

namespace strata::topology {
namespace {

namespace fs = std::filesystem;

// The first line of a small file; empty when it cannot be read.
std::string FirstLine(const fs::path& path) {
  const std::string text = common::TextOf(path);
  return std::string(absl::StripAsciiWhitespace(text.substr(0, text.find('\n'))));
}

int64_t NumberIn(const fs::path& path, int64_t otherwise) {
  int64_t value = 0;
  return absl::SimpleAtoi(FirstLine(path), &value) ? value : otherwise;
}

// Names in a folder, sorted.
std::vector<std::string> NamesIn(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<NetworkAdapter> ReadAdapters(const fs::path& sys, const Hardware& hardware) {
  std::map<std::string, NetworkAdapter> found;
  for (const Hardware::Device& device : hardware.NetworkInterfaces()) {
    const fs::path folder = sys / "class/net" / device.name;
    const int64_t megabits = NumberIn(folder / "speed", 0);
    found[device.name] = {.name = device.name,
                          .state = FirstLine(folder / "operstate"),
                          .bits_per_second = std::max<int64_t>(megabits, 0) * 1'000'000,
                          .attachment = device.attachment};
  }
  for (const auto& [name, attachment] : hardware.RdmaDevices()) {
    const fs::path folder = sys / "class/infiniband" / name;
    const std::string& pci = attachment.pci;
    // An adapter's Ethernet or IPoIB interface and its RDMA device are one PCI function.
    auto at = std::find_if(found.begin(), found.end(), [&](const auto& entry) {
      return !pci.empty() && entry.second.attachment.pci == pci;
    });
    if (at == found.end()) {
      at = found.try_emplace(name, NetworkAdapter{.name = name, .attachment = attachment}).first;
    }
    at->second.rdma = name;
    for (const std::string& port : NamesIn(folder / "ports")) {
      // "400 Gb/sec (4X NDR)"
      const std::string rate = FirstLine(folder / "ports" / port / "rate");
      double gigabits = 0;
      if (absl::SimpleAtod(rate.substr(0, rate.find(' ')), &gigabits) && gigabits > 0 &&
          gigabits < 1e6) {
        at->second.bits_per_second =
            std::max(at->second.bits_per_second, static_cast<int64_t>(gigabits * 1e9));
      }
      if (at->second.state.empty()) at->second.state = FirstLine(folder / "ports" / port / "state");
    }
  }
  std::vector<NetworkAdapter> adapters;
  adapters.reserve(found.size());
  for (auto& [name, adapter] : found) adapters.push_back(std::move(adapter));
  return adapters;
}

std::vector<Disk> ReadDisks(const fs::path& sys, const Hardware& hardware) {
  std::vector<Disk> disks;
  for (const Hardware::Device& device : hardware.Disks()) {
    const fs::path folder = sys / "block" / device.name;
    const int64_t sectors = NumberIn(folder / "size", 0);
    if (sectors <= 0 || sectors > INT64_MAX / 512) continue;
    disks.push_back({.name = device.name,
                     .bytes = sectors * 512,  // of 512 bytes whatever the disk's own sectors are
                     .rotational = NumberIn(folder / "queue/rotational", 0) == 1,
                     .attachment = device.attachment});
  }
  return disks;
}

// A machine without the library has none, and that needs no note.
std::vector<Accelerator> ReadAccelerators(const std::string& library, Machine& machine) {
  const absl::StatusOr<std::unique_ptr<Nvml>> nvml = Nvml::Open(library);
  if (!nvml.ok()) {
    if (!absl::IsNotFound(nvml.status())) {
      machine.notes.emplace_back(nvml.status().message());
    }
    return {};
  }
  std::vector<Accelerator> found;
  for (int i = 0; i < (*nvml)->count(); ++i) {
    absl::StatusOr<GpuIdentity> gpu = (*nvml)->Identify(i);
    if (!gpu.ok()) {
      machine.notes.push_back(absl::StrCat(gpu.status().message(), ": nvidia-smi may say why"));
      continue;
    }
    found.push_back({.index = i,
                     .product = std::move(gpu->product),
                     .kind = std::move(gpu->kind),
                     .attachment = {.pci = std::move(gpu->pci)},
                     .active_nvlinks = gpu->active_nvlinks,
                     .fabric_clique = std::move(gpu->fabric_clique)});
  }
  return found;
}

void NoteLimits(const Hardware& hardware, Machine& machine) {
  int cores = 0;
  int usable = 0;
  for (const NumaNode& node : machine.numa_nodes) {
    cores += node.cores;
    usable += node.usable_cores;
  }
  if (usable < cores) {
    machine.notes.push_back(absl::StrCat("this process may use ", usable, " of the ", cores,
                                         " cores: a cpuset or its affinity keeps it there"));
  }
  if (!hardware.IsThisMachine()) {
    machine.notes.emplace_back(
        "hwloc was given another machine's description: cores and distances are that one's");
  }
}

}  // namespace

absl::StatusOr<Machine> Probe::Read() const {
  ASSIGN_OR_RETURN(const Hardware hardware, Hardware::Load(paths_.hwloc_xml));
  Machine machine;
  machine.numa_nodes = hardware.NumaNodes();
  NoteLimits(hardware, machine);
  machine.accelerators = ReadAccelerators(paths_.nvml, machine);
  for (Accelerator& accelerator : machine.accelerators) {
    Attachment& at = accelerator.attachment;
    if (!at.pci.empty()) at = hardware.OfPci(at.pci);
    if (at.bridges.empty()) {
      machine.notes.push_back(absl::StrCat("GPU ", accelerator.index, " (", at.pci,
                                           ") is not among the PCI devices that /sys shows: what "
                                           "is near it is not known"));
    }
  }
  machine.adapters = ReadAdapters(paths_.sys, hardware);
  machine.disks = ReadDisks(paths_.sys, hardware);
  return machine;
}

}  // namespace strata::topology
