#include "client/doctor/gpus.h"

#include <dlfcn.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/units.h"
#include "topology/nvml/gpu_health.h"

namespace strata::client {
namespace {

using common::FormatBytes;
using topology::GpuHealth;
using topology::GpuIdentity;

constexpr int kLeastCuda = 13000;  // what Strata's kernels are compiled with

// A library of NVIDIA's, and its function that tells its version: 22809 is 2.28.9 in all of them.
struct Known {
  const char* name;
  const char* file;
  const char* purpose;
  const char* version_function;
  bool into_argument = false;  // int f(int*), else size_t f()
};

constexpr Known kLibraries[] = {
    {"cuBLASLt", "libcublasLt.so.13", "matrix products need it", "cublasLtGetVersion"},
    {"cuDNN", "libcudnn.so.9", "its attention is not used without it", "cudnnGetVersion"},
    {"NCCL", "libnccl.so.2", "ranks on several GPUs need it", "ncclGetVersion", true}};

// "" of one that does not tell.
std::string VersionOf(void* library, const Known& known) {
  void* const function = dlsym(library, known.version_function);
  if (function == nullptr) return "";
  int version = 0;
  if (!known.into_argument) {
    version = static_cast<int>(reinterpret_cast<size_t (*)()>(function)());
  } else if (reinterpret_cast<int (*)(int*)>(function)(&version) != 0) {
    return "";
  }
  return absl::StrCat(version / 10000, ".", version % 10000 / 100, ".", version % 100);
}

std::vector<GpuLibrary> ReadLibraries() {
  std::vector<GpuLibrary> libraries;
  for (const Known& known : kLibraries) {
    GpuLibrary& library = libraries.emplace_back();
    library.name = known.name;
    library.file = known.file;
    library.purpose = known.purpose;
    void* const file = dlopen(known.file, RTLD_LAZY | RTLD_LOCAL);
    if (file == nullptr) continue;
    library.version = VersionOf(file, known);
    dlclose(file);
  }
  return libraries;
}

Finding JudgeDriver(const GpuFacts& facts) {
  Finding finding{"gpu driver", Health::kOk, "", ""};
  finding.value = absl::StrCat(
      facts.driver.empty() ? "unknown" : facts.driver, ", for CUDA up to ",
      facts.cuda == 0 ? "?" : absl::StrCat(facts.cuda / 1000, ".", facts.cuda % 1000 / 10));
  if (facts.cuda < kLeastCuda) {
    finding.health = Health::kWarning;
    finding.advice = "Strata's kernels are of CUDA 13: install a driver of 580 or newer";
  }
  return finding;
}

std::string Describe(const GpuIdentity& gpu) {
  return absl::StrCat(
      gpu.product, gpu.pci.empty() ? "" : absl::StrCat(" at ", gpu.pci),
      gpu.memory_bytes > 0 ? absl::StrCat(", ", FormatBytes(static_cast<double>(gpu.memory_bytes)))
                           : "",
      gpu.nvlinks > 0 ? absl::StrCat(", ", gpu.active_nvlinks, " of ", gpu.nvlinks, " NVLinks up")
                      : ", no NVLink",
      gpu.fabric_clique.empty() ? "" : absl::StrCat(", in fabric ", gpu.fabric_clique));
}

Finding JudgeGpu(const Gpu& gpu, int device) {
  Finding finding{absl::StrCat("gpu ", device), Health::kWarning, "", ""};
  if (!gpu.identity.ok()) {
    finding.value = std::string(gpu.identity.status().message());
    finding.advice = "nvidia-smi and the kernel's log (dmesg | grep Xid) may say why";
    return finding;
  }
  finding.value = Describe(*gpu.identity);
  GpuHealth health;
  health.OnReading(gpu.reading);
  if (const absl::Status usable = topology::CheckUsable(*gpu.identity, device); !usable.ok()) {
    finding.advice = std::string(usable.message());
  } else if (health.level() != GpuHealth::Level::kHealthy) {
    finding.advice = health.reason();
  } else if (gpu.identity->active_nvlinks < gpu.identity->nvlinks) {
    finding.advice =
        "ranks speak over the links that are up, and slower over fewer: is the fabric manager "
        "running? (systemctl status nvidia-fabricmanager, nvidia-smi nvlink -s)";
  } else {
    finding.health = Health::kOk;
  }
  return finding;
}

Finding JudgeLibraries(const GpuFacts& facts) {
  Finding finding{"gpu libraries", Health::kOk, "", ""};
  std::vector<std::string> found, missing;
  for (const GpuLibrary& library : facts.libraries) {
    found.push_back(absl::StrCat(library.name, " ",
                                 !library.version.has_value() ? "missing"
                                 : library.version->empty()   ? "of unknown version"
                                                              : *library.version));
    if (library.version.has_value()) continue;
    missing.push_back(absl::StrCat(library.file, " (", library.purpose, ")"));
  }
  finding.value = absl::StrJoin(found, ", ");
  if (missing.empty()) return finding;
  finding.health = Health::kWarning;
  finding.advice = absl::StrCat("install ", absl::StrJoin(missing, ", "),
                                " where the loader finds it (LD_LIBRARY_PATH, ldconfig)");
  return finding;
}

}  // namespace

GpuFacts ReadGpus(const std::string& library) {
  GpuFacts facts;
  const absl::StatusOr<std::unique_ptr<topology::Nvml>> nvml = topology::Nvml::Open(library);
  facts.nvml = nvml.status();
  if (!nvml.ok()) return facts;
  facts.driver = (*nvml)->DriverVersion();
  facts.cuda = (*nvml)->CudaVersion();
  for (int i = 0; i < (*nvml)->count(); ++i) {
    facts.gpus.push_back({(*nvml)->Identify(i), (*nvml)->Read(i)});
  }
  facts.libraries = ReadLibraries();
  return facts;
}

std::vector<Finding> JudgeGpus(const GpuFacts& facts) {
  if (absl::IsNotFound(facts.nvml)) {
    return {{"gpu", Health::kOk, "no NVIDIA driver: jobs run on the CPU", ""}};
  }
  if (!facts.nvml.ok()) {
    return {{"gpu", Health::kWarning, "a driver that does not work",
             std::string(facts.nvml.message())}};
  }
  std::vector<Finding> findings = {JudgeDriver(facts)};
  if (facts.gpus.empty()) {
    findings.push_back({"gpu", Health::kWarning, "none, though there is a driver",
                        "pass them into this container, or look for them with lspci"});
  }
  for (size_t i = 0; i < facts.gpus.size(); ++i) {
    findings.push_back(JudgeGpu(facts.gpus[i], static_cast<int>(i)));
  }
  findings.push_back(JudgeLibraries(facts));
  return findings;
}

}  // namespace strata::client
