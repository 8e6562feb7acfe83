// The machine as hwloc sees it: NUMA nodes with their cores, and what hangs where on PCI.
#ifndef STRATA_TOPOLOGY_PROBE_HARDWARE_H_
#define STRATA_TOPOLOGY_PROBE_HARDWARE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

struct hwloc_topology;

namespace strata::topology {

// Where a device hangs.
struct Attachment {
  std::string pci;  // its address, 0000:3b:00.0; empty: not on PCI
  // From the root down to the device: the host bridge by the buses below it (0000:[3a-40]), then
  // the PCI bridges by their addresses. Empty when they are not shown here.
  std::vector<std::string> bridges;
  int numa = -1;  // the nearest NUMA node; -1: not known
};

struct NumaNode {
  int index = 0;
  int cores = 0;
  int usable_cores = 0;  // by this process: the rest is another cpuset's
  int64_t memory_bytes = 0;
};

class Hardware {
 public:
  struct Device {
    std::string name;  // as the operating system calls it: eth0
    Attachment attachment;
  };

  // `xml`: another machine, as `lstopo --of xml` writes it; empty: this one. All of it is read,
  // also what this process may not use: distances are the same for all.
  static absl::StatusOr<Hardware> Load(const std::string& xml);

  // Whether this process runs on it. No: somebody told hwloc otherwise.
  bool IsThisMachine() const;
  std::vector<NumaNode> NumaNodes() const;
  // Only the address and nothing else when no such device is shown here.
  Attachment OfPci(const std::string& address) const;
  // By name; without those that are no hardware.
  std::vector<Device> NetworkInterfaces() const;
  std::vector<Device> RdmaDevices() const;
  std::vector<Device> Disks() const;

 private:
  struct Destroy {
    void operator()(hwloc_topology* topology) const;
  };
  explicit Hardware(hwloc_topology* topology) : topology_(topology) {}
  std::vector<Device> DevicesOf(int kind) const;

  std::unique_ptr<hwloc_topology, Destroy> topology_;
};

// How far apart two devices are: where the ways from them to the root meet, nearest first.
enum class Nearness { kSameSwitch, kSameHostBridge, kSameNuma, kAcrossNuma, kUnknown };
Nearness NearnessOf(const Attachment& a, const Attachment& b);
// "one PCIe switch", …
const char* NameOf(Nearness nearness);

}  // namespace strata::topology

#endif  // STRATA_TOPOLOGY_PROBE_HARDWARE_H_
