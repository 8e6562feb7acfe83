// The part of NVML's binary interface that is used here, as nvml.h of CUDA 11 to 13 defines it:
// names with versions keep their structures for ever.
#ifndef STRATA_TOPOLOGY_NVML_NVML_ABI_H_
#define STRATA_TOPOLOGY_NVML_NVML_ABI_H_

namespace strata::topology::nvml_abi {

using Return = int;
using DeviceHandle = void*;
using EventSet = void*;

inline constexpr Return kSuccess = 0;
inline constexpr Return kNotSupported = 3;
inline constexpr Return kDriverNotLoaded = 9;
inline constexpr Return kTimeout = 10;
inline constexpr Return kGpuIsLost = 15;
inline constexpr Return kResetRequired = 16;
inline constexpr Return kVersionMismatch = 18;

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  char bus_id[32];
};

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct Utilization {
  unsigned gpu;  // percent of the time in which a kernel ran
  unsigned memory;
};

struct EventData {
  DeviceHandle device;
  unsigned long long type;
  unsigned long long data;  // the Xid
  unsigned gpu_instance;
  unsigned compute_instance;
};

struct FabricInfo {
  unsigned char cluster_uuid[16];
  Return status;
  unsigned clique_id;
  unsigned char state;
};

inline constexpr unsigned kNameBytes = 96;  // of names, UUIDs and versions, at most
inline constexpr unsigned kMostNvlinks = 18;
inline constexpr unsigned char kFabricCompleted = 3;
inline constexpr int kSmClock = 1;
inline constexpr int kGpuTemperature = 0;
inline constexpr int kCorrected = 0;
inline constexpr int kUncorrected = 1;
inline constexpr int kVolatile = 0;  // counts since the driver was loaded
inline constexpr unsigned long long kXidCriticalError = 0x8;
// Clocks below what was asked for, because of heat or of the power supply. That the board is at its
// power limit (0x4) is what a busy one looks like.
inline constexpr unsigned long long kThrottling = 0x8 | 0x20 | 0x40 | 0x80;

}  // namespace strata::topology::nvml_abi

#endif  // STRATA_TOPOLOGY_NVML_NVML_ABI_H_
