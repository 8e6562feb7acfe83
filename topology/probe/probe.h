// What this machine has for training: cores, accelerators, network adapters, disks, and how near
// they are to each other. Places come from hwloc, rates and states from /sys, accelerators
// from NVML.
#ifndef STRATA_TOPOLOGY_PROBE_PROBE_H_
#define STRATA_TOPOLOGY_PROBE_PROBE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "topology/nvml/nvml.h"
#include "topology/probe/hardware.h"

namespace strata::topology {

struct Accelerator {
  int index = 0;
  std::string product;  // as the driver names it
  std::string kind;     // h100, …
  Attachment attachment;
  int active_nvlinks = 0;
  std::string fabric_clique;  // as GpuIdentity's
};

struct NetworkAdapter {
  std::string name;             // eth0
  std::string rdma;             // mlx5_0; empty when it does no RDMA
  std::string state;            // up, down, unknown; of an InfiniBand port, "4: ACTIVE"
  int64_t bits_per_second = 0;  // 0: unknown
  Attachment attachment;
};

struct Disk {
  std::string name;
  int64_t bytes = 0;
  bool rotational = false;
  Attachment attachment;
};

struct Machine {
  std::vector<NumaNode> numa_nodes;
  std::vector<Accelerator> accelerators;
  std::vector<NetworkAdapter> adapters;  // by name
  std::vector<Disk> disks;               // by name
  std::vector<std::string> notes;        // what could not be read or used, for people
};

struct ProbePaths {
  std::string sys = "/sys";
  std::string nvml = kNvmlLibrary;
  std::string hwloc_xml;  // as Hardware::Load takes it
};

class Probe {
 public:
  explicit Probe(ProbePaths paths) : paths_(std::move(paths)) {}
  // Reads everything anew. What is absent or unreadable is left out, and noted where it matters.
  // Fails when hwloc does.
  absl::StatusOr<Machine> Read() const;

 private:
  ProbePaths paths_;
};

}  // namespace strata::topology

#endif  // STRATA_TOPOLOGY_PROBE_PROBE_H_
