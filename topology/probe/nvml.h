// The part of NVIDIA's management library (NVML) that the probe calls, by dlopen.
#ifndef STRATA_TOPOLOGY_PROBE_NVML_H_
#define STRATA_TOPOLOGY_PROBE_NVML_H_

#include <string>
#include <vector>

#include "topology/probe/probe.h"

namespace strata::topology {

// Fills index, product, attachment.pci, active_nvlinks and fabric_clique. A library that is not
// there is no error: no accelerators and no note. Other failures are noted.
std::vector<Accelerator> ReadNvml(const std::string& library, std::vector<std::string>& notes);

// The binary interface, as nvml.h of CUDA 12 defines it.
namespace nvml {

using Return = int;  // 0: success
using DeviceHandle = void*;

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  char bus_id[32];
};

struct FabricInfo {
  unsigned char cluster_uuid[16];
  Return status;
  unsigned clique_id;
  unsigned char state;
};

inline constexpr unsigned kMostNvlinks = 18;
inline constexpr unsigned char kFabricCompleted = 3;

}  // namespace nvml
}  // namespace strata::topology

#endif  // STRATA_TOPOLOGY_PROBE_NVML_H_
