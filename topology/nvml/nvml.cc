#include "topology/nvml/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "topology/device_kind.h"
#include "topology/nvml/nvml_abi.h"

namespace strata::topology {

using nvml_abi::DeviceHandle;
using nvml_abi::EventSet;
using nvml_abi::Return;

// Functions are null where the driver is too old to have them: that costs their fact alone.
struct Nvml::Library {
  void* file = nullptr;
  std::string path;
  bool started = false;
  std::vector<DeviceHandle> devices;  // null: did not answer
  std::vector<Return> why_not;        // they did not
  EventSet events = nullptr;          // null: not asked for, or there are none

  Return (*init)() = nullptr;
  Return (*shutdown)() = nullptr;
  const char* (*error_string)(Return) = nullptr;
  Return (*driver_version)(char*, unsigned) = nullptr;
  Return (*cuda_version)(int*) = nullptr;
  Return (*count)(unsigned*) = nullptr;
  Return (*handle)(unsigned, DeviceHandle*) = nullptr;
  Return (*name)(DeviceHandle, char*, unsigned) = nullptr;
  Return (*uuid)(DeviceHandle, char*, unsigned) = nullptr;
  Return (*pci)(DeviceHandle, nvml_abi::PciInfo*) = nullptr;
  Return (*capability)(DeviceHandle, int*, int*) = nullptr;
  Return (*memory)(DeviceHandle, nvml_abi::Memory*) = nullptr;
  Return (*mig_mode)(DeviceHandle, unsigned*, unsigned*) = nullptr;
  Return (*link_state)(DeviceHandle, unsigned, int*) = nullptr;
  Return (*fabric)(DeviceHandle, nvml_abi::FabricInfo*) = nullptr;
  Return (*utilization)(DeviceHandle, nvml_abi::Utilization*) = nullptr;
  Return (*temperature)(DeviceHandle, int, unsigned*) = nullptr;
  Return (*power)(DeviceHandle, unsigned*) = nullptr;
  Return (*clock)(DeviceHandle, int, unsigned*) = nullptr;
  Return (*ecc)(DeviceHandle, int, int, unsigned long long*) = nullptr;
  Return (*remapped_rows)(DeviceHandle, unsigned*, unsigned*, unsigned*, unsigned*) = nullptr;
  Return (*throttle_reasons)(DeviceHandle, unsigned long long*) = nullptr;
  Return (*make_events)(EventSet*) = nullptr;
  Return (*free_events)(EventSet) = nullptr;
  Return (*register_events)(DeviceHandle, unsigned long long, EventSet) = nullptr;
  Return (*wait)(EventSet, nvml_abi::EventData*, unsigned) = nullptr;

  void Bind();
  std::string Text(Return code) const;
  absl::Status Start();
  absl::Status Failure(int device, Return code) const;
};

namespace {

constexpr unsigned kMostGpus = 64;

bool IsLost(Return code) {
  return code == nvml_abi::kGpuIsLost || code == nvml_abi::kResetRequired;
}

// The cluster's UUID and the clique in it.
std::string CliqueOf(const nvml_abi::FabricInfo& info) {
  const unsigned char* id = info.cluster_uuid;
  const bool none = std::all_of(id, id + 16, [](unsigned char byte) { return byte == 0; });
  if (info.state != nvml_abi::kFabricCompleted || info.status != 0 || none) return "";
  std::string text;
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += "-";
    absl::StrAppendFormat(&text, "%02x", id[i]);
  }
  return absl::StrCat(text, ".", info.clique_id);
}

// Of a function that writes into a buffer; empty when it is not there or fails.
template <typename Function, typename... Arguments>
std::string TextOf(Function* function, Arguments... arguments) {
  char text[nvml_abi::kNameBytes] = {};
  if (function == nullptr || function(arguments..., text, sizeof(text) - 1) != 0) return "";
  return text;
}

}  // namespace

void Nvml::Library::Bind() {
  const auto bind = [this](auto& function, std::initializer_list<const char*> names) {
    using Function = std::remove_reference_t<decltype(function)>;
    for (const char* symbol : names) {
      if (function == nullptr) function = reinterpret_cast<Function>(dlsym(file, symbol));
    }
  };
  bind(init, {"nvmlInit_v2"});
  bind(shutdown, {"nvmlShutdown"});
  bind(error_string, {"nvmlErrorString"});
  bind(driver_version, {"nvmlSystemGetDriverVersion"});
  bind(cuda_version, {"nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"});
  bind(count, {"nvmlDeviceGetCount_v2"});
  bind(handle, {"nvmlDeviceGetHandleByIndex_v2"});
  bind(name, {"nvmlDeviceGetName"});
  bind(uuid, {"nvmlDeviceGetUUID"});
  bind(pci, {"nvmlDeviceGetPciInfo_v3"});
  bind(capability, {"nvmlDeviceGetCudaComputeCapability"});
  bind(memory, {"nvmlDeviceGetMemoryInfo"});
  bind(mig_mode, {"nvmlDeviceGetMigMode"});
  bind(link_state, {"nvmlDeviceGetNvLinkState"});
  bind(fabric, {"nvmlDeviceGetGpuFabricInfo"});
  bind(utilization, {"nvmlDeviceGetUtilizationRates"});
  bind(temperature, {"nvmlDeviceGetTemperature"});
  bind(power, {"nvmlDeviceGetPowerUsage"});
  bind(clock, {"nvmlDeviceGetClockInfo"});
  bind(ecc, {"nvmlDeviceGetTotalEccErrors"});
  bind(remapped_rows, {"nvmlDeviceGetRemappedRows"});
  bind(throttle_reasons,
       {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  bind(make_events, {"nvmlEventSetCreate"});
  bind(free_events, {"nvmlEventSetFree"});
  bind(register_events, {"nvmlDeviceRegisterEvents"});
  bind(wait, {"nvmlEventSetWait_v2"});
}

std::string Nvml::Library::Text(Return code) const {
  const char* const text = error_string == nullptr ? nullptr : error_string(code);
  return text == nullptr ? absl::StrCat("NVML's code ", code) : text;
}

absl::Status Nvml::Library::Start() {
  if (!init || !shutdown || !count || !handle || !name || !pci) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": lacks functions that every NVML since CUDA 11 has"));
  }
  if (const Return code = init(); code != nvml_abi::kSuccess) {
    const char* const advice =
        code == nvml_abi::kVersionMismatch
            ? ": it and the kernel's module are of different drivers: reboot, or reload the module"
            : ": is the driver's kernel module loaded, and passed into this container?";
    return absl::FailedPreconditionError(
        absl::StrCat("NVML does not start (", Text(code), ")", advice));
  }
  started = true;
  unsigned found = 0;
  if (count(&found) != nvml_abi::kSuccess) found = 0;
  for (unsigned i = 0; i < std::min(found, kMostGpus); ++i) {
    DeviceHandle device = nullptr;
    why_not.push_back(handle(i, &device));
    devices.push_back(why_not.back() == nvml_abi::kSuccess ? device : nullptr);
  }
  return absl::OkStatus();
}

absl::Status Nvml::Library::Failure(int device, Return code) const {
  const std::string text = absl::StrCat("GPU ", device, " does not answer (", Text(code), ")");
  return IsLost(code) ? absl::DataLossError(text) : absl::UnavailableError(text);
}

absl::StatusOr<std::unique_ptr<Nvml>> Nvml::Open(const std::string& path) {
  auto library = std::make_unique<Library>();
  library->path = path;
  library->file = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library->file == nullptr) return absl::NotFoundError(dlerror());
  library->Bind();
  const absl::Status started = library->Start();
  std::unique_ptr<Nvml> nvml(new Nvml(std::move(library)));
  if (!started.ok()) return started;
  return nvml;
}

Nvml::Nvml(std::unique_ptr<Library> library) : library_(std::move(library)) {}

Nvml::~Nvml() {
  Library& library = *library_;
  if (library.events != nullptr) library.free_events(library.events);
  if (library.started) library.shutdown();
  dlclose(library.file);
}

std::string Nvml::DriverVersion() const { return TextOf(library_->driver_version); }

int Nvml::CudaVersion() const {
  int version = 0;
  const bool told =
      library_->cuda_version != nullptr && library_->cuda_version(&version) == nvml_abi::kSuccess;
  return told ? version : 0;
}

int Nvml::count() const { return static_cast<int>(library_->devices.size()); }

absl::StatusOr<GpuIdentity> Nvml::Identify(int device) const {
  const Library& library = *library_;
  const DeviceHandle handle = library.devices.at(device);
  if (handle == nullptr) return library.Failure(device, library.why_not.at(device));
  char name[nvml_abi::kNameBytes] = {};
  const Return named = library.name(handle, name, sizeof(name) - 1);
  if (named != nvml_abi::kSuccess) return library.Failure(device, named);
  GpuIdentity identity;
  identity.product = name;
  identity.kind = KindOfProduct(name);
  identity.uuid = TextOf(library.uuid, handle);
  nvml_abi::PciInfo pci = {};
  if (library.pci(handle, &pci) == nvml_abi::kSuccess) {
    identity.pci = absl::StrFormat("%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
  }
  int major = 0, minor = 0;
  if (library.capability != nullptr && library.capability(handle, &major, &minor) == 0) {
    identity.capability_major = major;
    identity.capability_minor = minor;
  }
  nvml_abi::Memory memory = {};
  if (library.memory != nullptr && library.memory(handle, &memory) == 0) {
    identity.memory_bytes = static_cast<int64_t>(memory.total);
  }
  unsigned mig = 0, mig_later = 0;
  identity.mig =
      library.mig_mode != nullptr && library.mig_mode(handle, &mig, &mig_later) == 0 && mig != 0;
  for (unsigned link = 0; library.link_state != nullptr && link < nvml_abi::kMostNvlinks; ++link) {
    int active = 0;
    if (library.link_state(handle, link, &active) != nvml_abi::kSuccess) continue;
    ++identity.nvlinks;
    identity.active_nvlinks += active == 1 ? 1 : 0;
  }
  nvml_abi::FabricInfo fabric = {};
  if (library.fabric != nullptr && library.fabric(handle, &fabric) == nvml_abi::kSuccess) {
    identity.fabric_clique = CliqueOf(fabric);
  }
  return identity;
}

absl::StatusOr<GpuReading> Nvml::Read(int device) const {
  const Library& library = *library_;
  const DeviceHandle handle = library.devices.at(device);
  if (handle == nullptr) return library.Failure(device, library.why_not.at(device));
  Return lost = nvml_abi::kSuccess;
  Return last = nvml_abi::kNotSupported;
  bool answers = false;
  // Whether a fact was told.
  const auto told = [&](auto* function, auto... arguments) {
    if (function == nullptr) return false;
    last = function(handle, arguments...);
    if (IsLost(last)) lost = last;
    answers |= last == nvml_abi::kSuccess;
    return last == nvml_abi::kSuccess;
  };
  GpuReading reading;
  nvml_abi::Memory memory = {};
  if (told(library.memory, &memory)) {
    reading.memory_used_bytes = static_cast<int64_t>(memory.used);
  }
  nvml_abi::Utilization utilization = {};
  if (told(library.utilization, &utilization)) reading.utilization = utilization.gpu / 100.0;
  unsigned value = 0;
  if (told(library.temperature, nvml_abi::kGpuTemperature, &value)) {
    reading.temperature_celsius = value;
  }
  if (told(library.power, &value)) reading.power_watts = value / 1e3;
  if (told(library.clock, nvml_abi::kSmClock, &value)) reading.sm_clock_hertz = value * 1e6;
  unsigned long long count = 0;
  if (told(library.ecc, nvml_abi::kCorrected, nvml_abi::kVolatile, &count)) {
    reading.ecc_corrected = static_cast<int64_t>(count);
  }
  if (told(library.ecc, nvml_abi::kUncorrected, nvml_abi::kVolatile, &count)) {
    reading.ecc_uncorrected = static_cast<int64_t>(count);
  }
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  if (told(library.remapped_rows, &corrected, &uncorrected, &pending, &failed)) {
    reading.remap_pending = pending != 0;
    reading.remap_failed = failed != 0;
  }
  unsigned long long reasons = 0;
  if (told(library.throttle_reasons, &reasons)) {
    reading.throttled = (reasons & nvml_abi::kThrottling) != 0;
  }
  if (lost != nvml_abi::kSuccess) return library.Failure(device, lost);
  if (!answers) return library.Failure(device, last);
  return reading;
}

bool Nvml::BeginXids() {
  Library& library = *library_;
  if (!library.make_events || !library.free_events || !library.register_events || !library.wait) {
    return false;
  }
  if (library.make_events(&library.events) != nvml_abi::kSuccess) {
    library.events = nullptr;
    return false;
  }
  bool all = true;
  for (DeviceHandle device : library.devices) {
    if (device == nullptr) continue;
    all &= library.register_events(device, nvml_abi::kXidCriticalError, library.events) ==
           nvml_abi::kSuccess;
  }
  return all;
}

std::optional<XidEvent> Nvml::WaitForXid(double seconds) {
  Library& library = *library_;
  nvml_abi::EventData event = {};
  Return code = nvml_abi::kNotSupported;
  if (library.events != nullptr) {
    code = library.wait(library.events, &event, static_cast<unsigned>(seconds * 1e3));
  }
  if (code != nvml_abi::kSuccess) {
    // Of a lost device it returns at once.
    if (code != nvml_abi::kTimeout)
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    return std::nullopt;
  }
  const auto at = std::find(library.devices.begin(), library.devices.end(), event.device);
  if (at == library.devices.end() || event.type != nvml_abi::kXidCriticalError) return std::nullopt;
  return XidEvent{static_cast<int>(at - library.devices.begin()), static_cast<int>(event.data)};
}

}  // namespace strata::topology
