#include "topology/probe/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "topology/device_kind.h"

namespace strata::topology {
namespace {

using nvml::DeviceHandle;
using nvml::Return;

constexpr unsigned kMostAccelerators = 64;

struct Close {
  void operator()(void* library) const { dlclose(library); }
};

template <typename Function>
Function* Find(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

// The cluster's UUID and the clique in it.
std::string CliqueOf(const nvml::FabricInfo& info) {
  const unsigned char* id = info.cluster_uuid;
  const bool none = std::all_of(id, id + 16, [](unsigned char byte) { return byte == 0; });
  if (info.state != nvml::kFabricCompleted || info.status != 0 || none) return "";
  std::string text;
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += "-";
    absl::StrAppendFormat(&text, "%02x", id[i]);
  }
  return absl::StrCat(text, ".", info.clique_id);
}

}  // namespace

std::vector<Accelerator> ReadNvml(const std::string& path, std::vector<std::string>& notes) {
  const std::unique_ptr<void, Close> library(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (library == nullptr) return {};
  void* const lib = library.get();
  auto* init = Find<Return()>(lib, "nvmlInit_v2");
  auto* shutdown = Find<Return()>(lib, "nvmlShutdown");
  auto* count_of = Find<Return(unsigned*)>(lib, "nvmlDeviceGetCount_v2");
  auto* handle_of = Find<Return(unsigned, DeviceHandle*)>(lib, "nvmlDeviceGetHandleByIndex_v2");
  auto* name_of = Find<Return(DeviceHandle, char*, unsigned)>(lib, "nvmlDeviceGetName");
  auto* pci_of = Find<Return(DeviceHandle, nvml::PciInfo*)>(lib, "nvmlDeviceGetPciInfo_v3");
  // Drivers before 2022 lack the last one.
  auto* link_of = Find<Return(DeviceHandle, unsigned, int*)>(lib, "nvmlDeviceGetNvLinkState");
  auto* fabric_of =
      Find<Return(DeviceHandle, nvml::FabricInfo*)>(lib, "nvmlDeviceGetGpuFabricInfo");
  if (!init || !shutdown || !count_of || !handle_of || !name_of || !pci_of) {
    notes.push_back(absl::StrCat(path, ": lacks functions that every NVML since CUDA 11 has"));
    return {};
  }
  if (const Return code = init(); code != 0) {
    notes.push_back(absl::StrCat("NVML does not start (code ", code, "): is the driver loaded?"));
    return {};
  }
  unsigned count = 0;
  if (count_of(&count) != 0) count = 0;
  std::vector<Accelerator> found;
  for (unsigned i = 0; i < std::min(count, kMostAccelerators); ++i) {
    Accelerator accelerator{.index = static_cast<int>(i)};
    DeviceHandle handle = nullptr;
    char name[96] = {};
    if (handle_of(i, &handle) != 0 || name_of(handle, name, sizeof(name) - 1) != 0) {
      notes.push_back(absl::StrCat("GPU ", i, " does not answer: nvidia-smi may say why"));
      continue;
    }
    accelerator.product = name;
    accelerator.kind = KindOfProduct(name);
    nvml::PciInfo pci = {};
    if (pci_of(handle, &pci) == 0) {
      accelerator.attachment.pci =
          absl::StrFormat("%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
    }
    for (unsigned link = 0; link_of != nullptr && link < nvml::kMostNvlinks; ++link) {
      int active = 0;
      if (link_of(handle, link, &active) == 0 && active == 1) ++accelerator.active_nvlinks;
    }
    nvml::FabricInfo fabric = {};
    if (fabric_of != nullptr && fabric_of(handle, &fabric) == 0) {
      accelerator.fabric_clique = CliqueOf(fabric);
    }
    found.push_back(std::move(accelerator));
  }
  shutdown();
  return found;
}

}  // namespace strata::topology
