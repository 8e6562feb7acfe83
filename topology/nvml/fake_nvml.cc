// A management library that tells what the file $STRATA_FAKE_NVML says, read at each call:
//
//   init CODE                  what nvmlInit returns
//   driver TEXT
//   cuda NUMBER
//   gpu KEY=VALUE|KEY=VALUE    one device; a fact without its key is not supported
//   xid DEVICE NUMBER          an event, told once
//   hang                       waiting for events does not end for as long as this line is there
//
// Keys of facts: name uuid bus capability memory used mig links (that are up, of 18) clique fabric
// utilization temperature power clock corrected uncorrected pending failed throttle; `handle` and
// `status`: the code that asking for its handle, or for a fact, returns.
//
// With STRATA_OLD_DRIVER it lacks what drivers of 2020 lacked.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "topology/nvml/nvml_abi.h"

using strata::topology::nvml_abi::DeviceHandle;
using strata::topology::nvml_abi::EventData;
using strata::topology::nvml_abi::EventSet;
using strata::topology::nvml_abi::FabricInfo;
using strata::topology::nvml_abi::Memory;
using strata::topology::nvml_abi::PciInfo;
using strata::topology::nvml_abi::Return;
using strata::topology::nvml_abi::Utilization;

namespace {

using Facts = std::map<std::string, std::string>;

struct Machine {
  Return init = 0;
  std::string driver;
  int cuda = 0;
  std::vector<Facts> gpus;
  std::vector<std::pair<int, int>> xids;
  bool hangs = false;
};

char handles[64];

Facts ReadFacts(const std::string& text) {
  Facts facts;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, '|');) {
    const size_t equals = part.find('=');
    facts[part.substr(0, equals)] = part.substr(equals + 1);
  }
  return facts;
}

Machine ReadMachine() {
  Machine machine;
  const char* const path = std::getenv("STRATA_FAKE_NVML");
  std::ifstream file(path == nullptr ? "" : path);
  for (std::string line; std::getline(file, line);) {
    const std::string word = line.substr(0, line.find(' '));
    const std::string rest = line.substr(line.find(' ') + 1);
    if (word == "init") machine.init = std::stoi(rest);
    if (word == "driver") machine.driver = rest;
    if (word == "cuda") machine.cuda = std::stoi(rest);
    if (word == "gpu") machine.gpus.push_back(ReadFacts(rest));
    if (word == "hang") machine.hangs = true;
    if (word != "xid") continue;
    std::pair<int, int> xid;
    std::istringstream(rest) >> xid.first >> xid.second;
    machine.xids.push_back(xid);
  }
  return machine;
}

long IndexOf(DeviceHandle handle) { return static_cast<char*>(handle) - handles; }

// Of one fact: 0 when there is one.
Return Find(DeviceHandle handle, const char* key, std::string* value) {
  const Machine machine = ReadMachine();
  const Facts& facts = machine.gpus.at(IndexOf(handle));
  if (const auto status = facts.find("status"); status != facts.end()) {
    return std::stoi(status->second);
  }
  const auto fact = facts.find(key);
  if (fact == facts.end()) return strata::topology::nvml_abi::kNotSupported;
  *value = fact->second;
  return 0;
}

template <typename Number>
Return Tell(DeviceHandle handle, const char* key, Number* number) {
  std::string text;
  const Return code = Find(handle, key, &text);
  if (code == 0) *number = static_cast<Number>(std::stoull(text, nullptr, 0));
  return code;
}

Return Tell(DeviceHandle handle, const char* key, char* text, unsigned length) {
  std::string found;
  const Return code = Find(handle, key, &found);
  if (code == 0) std::snprintf(text, length, "%s", found.c_str());
  return code;
}

}  // namespace

extern "C" {

Return nvmlInit_v2() { return ReadMachine().init; }
Return nvmlShutdown() { return 0; }
const char* nvmlErrorString(Return code) {
  return code == 9 ? "Driver Not Loaded" : code == 15 ? "GPU is lost" : "Unknown Error";
}
Return nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::snprintf(text, length, "%s", ReadMachine().driver.c_str());
  return 0;
}
Return nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(ReadMachine().gpus.size());
  return 0;
}
Return nvmlDeviceGetHandleByIndex_v2(unsigned index, DeviceHandle* handle) {
  const Machine machine = ReadMachine();
  const auto code = machine.gpus.at(index).find("handle");
  *handle = handles + index;
  return code == machine.gpus.at(index).end() ? 0 : std::stoi(code->second);
}
Return nvmlDeviceGetName(DeviceHandle handle, char* name, unsigned length) {
  return Tell(handle, "name", name, length);
}
Return nvmlDeviceGetUUID(DeviceHandle handle, char* uuid, unsigned length) {
  return Tell(handle, "uuid", uuid, length);
}
Return nvmlDeviceGetPciInfo_v3(DeviceHandle handle, PciInfo* pci) {
  return Tell(handle, "bus", &pci->bus);
}
Return nvmlDeviceGetCudaComputeCapability(DeviceHandle handle, int* major, int* minor) {
  std::string text;
  const Return code = Find(handle, "capability", &text);
  if (code == 0) std::sscanf(text.c_str(), "%d.%d", major, minor);
  return code;
}
Return nvmlDeviceGetMemoryInfo(DeviceHandle handle, Memory* memory) {
  const Return code = Tell(handle, "memory", &memory->total);
  Tell(handle, "used", &memory->used);
  return code;
}
Return nvmlDeviceGetNvLinkState(DeviceHandle handle, unsigned link, int* active) {
  unsigned up = 0;
  const Return code = Tell(handle, "links", &up);
  *active = link < up ? 1 : 0;
  return code;
}
Return nvmlDeviceGetUtilizationRates(DeviceHandle handle, Utilization* utilization) {
  return Tell(handle, "utilization", &utilization->gpu);
}
Return nvmlDeviceGetTemperature(DeviceHandle handle, int sensor, unsigned* degrees) {
  return sensor == 0 ? Tell(handle, "temperature", degrees) : 2;
}
Return nvmlDeviceGetPowerUsage(DeviceHandle handle, unsigned* milliwatts) {
  return Tell(handle, "power", milliwatts);
}
Return nvmlDeviceGetClockInfo(DeviceHandle handle, int domain, unsigned* megahertz) {
  return domain == 1 ? Tell(handle, "clock", megahertz) : 2;
}
Return nvmlDeviceGetTotalEccErrors(DeviceHandle handle, int type, int counter,
                                   unsigned long long* count) {
  return counter == 0 ? Tell(handle, type == 1 ? "uncorrected" : "corrected", count) : 2;
}

#ifndef STRATA_OLD_DRIVER
Return nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = ReadMachine().cuda;
  return 0;
}
Return nvmlDeviceGetMigMode(DeviceHandle handle, unsigned* now, unsigned* later) {
  *later = 0;
  return Tell(handle, "mig", now);
}
Return nvmlDeviceGetGpuFabricInfo(DeviceHandle handle, FabricInfo* info) {
  std::memset(info, 0, sizeof(*info));
  for (int i = 0; i < 16; ++i) info->cluster_uuid[i] = static_cast<unsigned char>(i);
  Tell(handle, "clique", &info->clique_id);
  return Tell(handle, "fabric", &info->state);
}
Return nvmlDeviceGetRemappedRows(DeviceHandle handle, unsigned* corrected, unsigned* uncorrected,
                                 unsigned* pending, unsigned* failed) {
  *corrected = *uncorrected = *failed = 0;
  Tell(handle, "failed", failed);
  return Tell(handle, "pending", pending);
}
Return nvmlDeviceGetCurrentClocksThrottleReasons(DeviceHandle handle, unsigned long long* reasons) {
  return Tell(handle, "throttle", reasons);
}

struct Events {
  bool of[64] = {};  // devices
  size_t told = 0;
};

Return nvmlEventSetCreate(EventSet* set) {
  *set = new Events;
  return 0;
}
Return nvmlEventSetFree(EventSet set) {
  delete static_cast<Events*>(set);
  return 0;
}
Return nvmlDeviceRegisterEvents(DeviceHandle handle, unsigned long long types, EventSet set) {
  static_cast<Events*>(set)->of[IndexOf(handle)] = types == 8;
  return 0;
}
Return nvmlEventSetWait_v2(EventSet set, EventData* event, unsigned milliseconds) {
  Events& events = *static_cast<Events*>(set);
  constexpr unsigned kStep = 5;  // milliseconds
  bool hangs = false;
  for (unsigned waited = 0; hangs || waited <= milliseconds; waited += kStep) {
    const Machine machine = ReadMachine();
    hangs = machine.hangs;
    while (events.told < machine.xids.size()) {
      const auto [device, number] = machine.xids[events.told++];
      if (!events.of[device]) continue;
      event->device = handles + device;
      event->type = 8;
      event->data = static_cast<unsigned long long>(number);
      return 0;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(kStep));
  }
  return strata::topology::nvml_abi::kTimeout;
}
#endif

}  // extern "C"
