#include "topology/probe/probe.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "topology/probe/nvml.h"

namespace strata::topology {
namespace {

namespace fs = std::filesystem;

// The first line of a small file; empty when it cannot be read.
std::string FirstLine(const fs::path& path) {
  std::ifstream stream(path);
  std::string line;
  std::getline(stream, line);
  return std::string(absl::StripAsciiWhitespace(line.substr(0, 4096)));
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

// 0000:3b:00.0
bool IsPciAddress(absl::string_view text) {
  return text.size() >= 12 && text[text.size() - 2] == '.' && text[text.size() - 5] == ':' &&
         text[text.size() - 8] == ':';
}

// From the folder of a device, links followed: the PCI addresses in its path.
Attachment AttachmentOf(const fs::path& device) {
  Attachment attachment;
  std::error_code error;
  const fs::path real = fs::canonical(device, error);
  if (error) return attachment;
  fs::path folder;
  for (const fs::path& part : real) {
    folder /= part;
    if (!IsPciAddress(part.string())) continue;
    attachment.bridges.push_back(part.string());
    attachment.pci = part.string();
    attachment.numa = static_cast<int>(NumberIn(folder / "numa_node", -1));
  }
  if (!attachment.bridges.empty()) attachment.bridges.pop_back();  // the device itself
  return attachment;
}

std::vector<NetworkAdapter> ReadAdapters(const fs::path& sys) {
  std::map<std::string, NetworkAdapter> found;
  for (const std::string& name : NamesIn(sys / "class/net")) {
    const fs::path folder = sys / "class/net" / name;
    std::error_code error;
    if (!fs::exists(folder / "device", error)) continue;  // loopback, bridges, tunnels
    const int64_t megabits = NumberIn(folder / "speed", 0);
    found[name] = {.name = name,
                   .state = FirstLine(folder / "operstate"),
                   .bits_per_second = std::max<int64_t>(megabits, 0) * 1'000'000,
                   .attachment = AttachmentOf(folder / "device")};
  }
  for (const std::string& name : NamesIn(sys / "class/infiniband")) {
    const fs::path folder = sys / "class/infiniband" / name;
    const Attachment attachment = AttachmentOf(folder / "device");
    // An adapter's Ethernet or IPoIB interface and its RDMA device are one PCI function.
    auto at = std::find_if(found.begin(), found.end(), [&](const auto& entry) {
      return !attachment.pci.empty() && entry.second.attachment.pci == attachment.pci;
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
  for (auto& [name, adapter] : found) adapters.push_back(std::move(adapter));
  return adapters;
}

std::vector<Disk> ReadDisks(const fs::path& sys) {
  std::vector<Disk> disks;
  for (const std::string& name : NamesIn(sys / "block")) {
    const fs::path folder = sys / "block" / name;
    const int64_t sectors = NumberIn(folder / "size", 0);
    const bool is_virtual = absl::StartsWith(name, "loop") || absl::StartsWith(name, "ram") ||
                            absl::StartsWith(name, "zram") || absl::StartsWith(name, "dm-");
    if (sectors <= 0 || sectors > INT64_MAX / 512 || is_virtual) continue;
    disks.push_back({.name = name,
                     .bytes = sectors * 512,  // of 512 bytes whatever the disk's own sectors are
                     .rotational = NumberIn(folder / "queue/rotational", 0) == 1,
                     .attachment = AttachmentOf(folder / "device")});
  }
  return disks;
}

}  // namespace

Machine Probe::Read() const {
  Machine machine;
  const fs::path sys = paths_.sys;
  for (const std::string& name : NamesIn(sys / "devices/system/node")) {
    int index = 0;
    if (absl::StartsWith(name, "node") && absl::SimpleAtoi(name.substr(4), &index)) {
      ++machine.numa_nodes;
    }
  }
  machine.accelerators = ReadNvml(paths_.nvml, machine.notes);
  for (Accelerator& accelerator : machine.accelerators) {
    const std::string pci = accelerator.attachment.pci;
    if (!pci.empty()) accelerator.attachment = AttachmentOf(sys / "bus/pci/devices" / pci);
    accelerator.attachment.pci = pci;
  }
  machine.adapters = ReadAdapters(sys);
  machine.disks = ReadDisks(sys);
  return machine;
}

Nearness NearnessOf(const Attachment& a, const Attachment& b) {
  if (!a.bridges.empty() && !b.bridges.empty() && a.bridges[0] == b.bridges[0]) {
    // Below one root port; with a bridge more in common, below one switch.
    const bool below_switch =
        a.bridges.size() > 1 && b.bridges.size() > 1 && a.bridges[1] == b.bridges[1];
    return below_switch ? Nearness::kSameSwitch : Nearness::kSameRootPort;
  }
  if (a.numa < 0 || b.numa < 0) return Nearness::kUnknown;
  return a.numa == b.numa ? Nearness::kSameNuma : Nearness::kAcrossNuma;
}

const char* NameOf(Nearness nearness) {
  switch (nearness) {
    case Nearness::kSameSwitch:
      return "one PCIe switch";
    case Nearness::kSameRootPort:
      return "one PCIe root port";
    case Nearness::kSameNuma:
      return "one NUMA node";
    case Nearness::kAcrossNuma:
      return "across NUMA nodes";
    case Nearness::kUnknown:
      return "unknown";
  }
  return "unknown";
}

}  // namespace strata::topology
