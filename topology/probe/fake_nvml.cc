// A management library with two GPUs in one NVLink fabric, and a third that does not answer: on the
// machine of hardware_test.cc.
#include <cstdio>
#include <cstring>

#include "topology/probe/nvml.h"

using strata::topology::nvml::DeviceHandle;
using strata::topology::nvml::FabricInfo;
using strata::topology::nvml::PciInfo;
using strata::topology::nvml::Return;

namespace {
char devices[3];
long IndexOf(DeviceHandle handle) { return static_cast<char*>(handle) - devices; }
}  // namespace

extern "C" {

Return nvmlInit_v2() { return 0; }
Return nvmlShutdown() { return 0; }
Return nvmlDeviceGetCount_v2(unsigned* count) { return *count = 3, 0; }
Return nvmlDeviceGetHandleByIndex_v2(unsigned index, DeviceHandle* handle) {
  *handle = devices + index;
  return index == 2 ? 15 : 0;
}
Return nvmlDeviceGetName(DeviceHandle, char* name, unsigned length) {
  std::snprintf(name, length, "NVIDIA H100 80GB HBM3");
  return 0;
}
Return nvmlDeviceGetPciInfo_v3(DeviceHandle handle, PciInfo* pci) {
  pci->bus = IndexOf(handle) == 0 ? 0x1c : 0x9e;
  return 0;
}
Return nvmlDeviceGetNvLinkState(DeviceHandle, unsigned link, int* active) {
  if (link >= 4) return 3;
  *active = link == 3 ? 0 : 1;
  return 0;
}
Return nvmlDeviceGetGpuFabricInfo(DeviceHandle handle, FabricInfo* info) {
  std::memset(info, 0, sizeof(*info));
  for (int i = 0; i < 16; ++i) info->cluster_uuid[i] = static_cast<unsigned char>(i);
  info->clique_id = 7;
  info->state = IndexOf(handle) == 0 ? 3 : 2;  // completed, in progress
  return 0;
}

}  // extern "C"
