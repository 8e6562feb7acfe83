#include "topology/probe/hardware.h"

#include <hwloc.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace strata::topology {
namespace {

struct FreeBitmap {
  void operator()(hwloc_bitmap_t set) const { hwloc_bitmap_free(set); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

absl::Status Failure(const char* what) {
  return absl::InternalError(absl::StrCat("hwloc ", what, ": ", strerror(errno)));
}

// Those that allow for the cgroup's cpuset, and on this machine for the process's own affinity.
Bitmap UsableProcessors(hwloc_topology_t topology) {
  Bitmap usable(hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology)));
  const Bitmap bound(hwloc_bitmap_alloc());
  if (hwloc_topology_is_thissystem(topology) != 0 &&
      hwloc_get_cpubind(topology, bound.get(), HWLOC_CPUBIND_PROCESS) == 0) {
    hwloc_bitmap_and(usable.get(), usable.get(), bound.get());
  }
  return usable;
}

std::string AddressOf(const hwloc_obj_attr_u::hwloc_pcidev_attr_s& pci) {
  return absl::StrFormat("%04x:%02x:%02x.%x", pci.domain, pci.bus, pci.dev, pci.func);
}

std::string NameOfBridge(const hwloc_obj_attr_u::hwloc_bridge_attr_s& bridge) {
  if (bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI) return AddressOf(bridge.upstream.pci);
  const auto& below = bridge.downstream.pci;
  return absl::StrFormat("%04x:[%02x-%02x]", below.domain, below.secondary_bus,
                         below.subordinate_bus);
}

// The node that holds all the processors the device is near to, else one of several; -1 when the
// operating system does not tell the device's place among them.
int NearestNuma(hwloc_topology_t topology, hwloc_obj_t device) {
  const hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(topology, device);
  int of_several = -1;
  for (hwloc_obj_t node = nullptr;
       (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr;) {
    const int index = static_cast<int>(node->os_index);
    if (hwloc_bitmap_isincluded(near->cpuset, node->cpuset) != 0) return index;
    if (of_several < 0 && hwloc_bitmap_intersects(near->cpuset, node->cpuset) != 0) {
      of_several = index;
    }
  }
  return near == hwloc_get_root_obj(topology) ? -1 : of_several;
}

Attachment AttachmentOf(hwloc_topology_t topology, hwloc_obj_t device) {
  Attachment attachment;
  attachment.numa = NearestNuma(topology, device);
  for (hwloc_obj_t at = device; at != nullptr; at = at->parent) {
    if (at->type == HWLOC_OBJ_PCI_DEVICE && attachment.pci.empty()) {
      attachment.pci = AddressOf(at->attr->pcidev);
    } else if (at->type == HWLOC_OBJ_BRIDGE) {
      attachment.bridges.push_back(NameOfBridge(at->attr->bridge));
    }
  }
  std::reverse(attachment.bridges.begin(), attachment.bridges.end());
  return attachment;
}

}  // namespace

void Hardware::Destroy::operator()(hwloc_topology* topology) const {
  hwloc_topology_destroy(topology);
}

absl::StatusOr<Hardware> Hardware::Load(const std::string& xml) {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return Failure("does not start");
  Hardware hardware(topology);
  if (!xml.empty() &&
      hwloc_topology_set_xmlbuffer(topology, xml.c_str(), static_cast<int>(xml.size() + 1)) != 0) {
    return Failure("cannot read this XML");
  }
  // Accelerators are NVML's business: no component here is to load a driver.
  for (const char* component : {"cuda", "nvml", "opencl", "rsmi", "levelzero", "gl"}) {
    hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  }
  hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (hwloc_topology_load(topology) != 0) {
    return Failure(xml.empty() ? "cannot read this machine" : "cannot read this XML");
  }
  return hardware;
}

bool Hardware::IsThisMachine() const { return hwloc_topology_is_thissystem(topology_.get()) != 0; }

std::vector<NumaNode> Hardware::NumaNodes() const {
  hwloc_topology_t topology = topology_.get();
  const Bitmap usable = UsableProcessors(topology);
  std::vector<NumaNode> nodes;
  for (hwloc_obj_t node = nullptr;
       (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr;) {
    NumaNode& found = nodes.emplace_back();
    found.index = static_cast<int>(node->os_index);
    found.memory_bytes = static_cast<int64_t>(node->attr->numanode.local_memory);
    for (hwloc_obj_t core = nullptr;
         (core = hwloc_get_next_obj_inside_cpuset_by_type(topology, node->cpuset, HWLOC_OBJ_CORE,
                                                          core)) != nullptr;) {
      ++found.cores;
      found.usable_cores += hwloc_bitmap_intersects(core->cpuset, usable.get()) != 0 ? 1 : 0;
    }
  }
  return nodes;
}

Attachment Hardware::OfPci(const std::string& address) const {
  const hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(topology_.get(), address.c_str());
  if (device == nullptr) return {.pci = address};
  return AttachmentOf(topology_.get(), device);
}

std::vector<Hardware::Device> Hardware::DevicesOf(int kind) const {
  std::vector<Device> devices;
  for (hwloc_obj_t device = nullptr;
       (device = hwloc_get_next_osdev(topology_.get(), device)) != nullptr;) {
    if (device->name == nullptr || static_cast<int>(device->attr->osdev.type) != kind) continue;
    devices.push_back({device->name, AttachmentOf(topology_.get(), device)});
  }
  std::sort(devices.begin(), devices.end(),
            [](const Device& a, const Device& b) { return a.name < b.name; });
  return devices;
}

std::vector<Hardware::Device> Hardware::NetworkInterfaces() const {
  return DevicesOf(HWLOC_OBJ_OSDEV_NETWORK);
}
std::vector<Hardware::Device> Hardware::RdmaDevices() const {
  return DevicesOf(HWLOC_OBJ_OSDEV_OPENFABRICS);
}
std::vector<Hardware::Device> Hardware::Disks() const { return DevicesOf(HWLOC_OBJ_OSDEV_BLOCK); }

Nearness NearnessOf(const Attachment& a, const Attachment& b) {
  const auto meet =
      std::mismatch(a.bridges.begin(), a.bridges.end(), b.bridges.begin(), b.bridges.end());
  const auto common = meet.first - a.bridges.begin();
  // A PCI Express link has two ends: below one bridge there are several devices only where a switch
  // spreads it.
  if (common > 1) return Nearness::kSameSwitch;
  if (common == 1) return Nearness::kSameHostBridge;
  if (a.numa < 0 || b.numa < 0) return Nearness::kUnknown;
  return a.numa == b.numa ? Nearness::kSameNuma : Nearness::kAcrossNuma;
}

const char* NameOf(Nearness nearness) {
  switch (nearness) {
    case Nearness::kSameSwitch:
      return "one PCIe switch";
    case Nearness::kSameHostBridge:
      return "one host bridge";
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
