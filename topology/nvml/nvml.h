// NVIDIA's management library (NVML), looked for when the program runs: nothing of it is needed to
// build, or on machines without GPUs.
#ifndef STRATA_TOPOLOGY_NVML_NVML_H_
#define STRATA_TOPOLOGY_NVML_NVML_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace strata::topology {

inline constexpr char kNvmlLibrary[] = "libnvidia-ml.so.1";  // as dlopen takes it

// What a GPU is. Facts that its driver does not tell are left as they are here.
struct GpuIdentity {
  std::string product;       // as the driver names it
  std::string kind;          // h100, …: KindOfProduct
  std::string uuid;          // GPU-…
  std::string pci;           // 0000:1c:00.0
  int capability_major = 0;  // of its instructions: 9.0 of H100; 0: not told
  int capability_minor = 0;
  int64_t memory_bytes = 0;
  bool mig = false;  // it is cut into instances
  int nvlinks = 0;   // that it has
  int active_nvlinks = 0;
  // Of the NVLink fabric across nodes: "CLUSTER.CLIQUE", as Kubernetes' label nvidia.com/gpu.clique
  // writes it; empty when there is none, or it is not complete.
  std::string fabric_clique;
};

// How it is. Absent: its driver does not tell.
struct GpuReading {
  std::optional<double> utilization;  // 0 to 1: time in which a kernel ran
  std::optional<int64_t> memory_used_bytes;
  std::optional<double> temperature_celsius;
  std::optional<double> power_watts;
  std::optional<double> sm_clock_hertz;
  std::optional<int64_t> ecc_corrected;  // since the driver was loaded, as the next
  std::optional<int64_t> ecc_uncorrected;
  std::optional<bool> remap_pending;  // rows of its memory are replaced at its next reset
  std::optional<bool> remap_failed;   // there were no rows left to replace them with
  std::optional<bool> throttled;      // by heat or its power supply
};

// An error that the driver wrote to the kernel's log: see xid.h.
struct XidEvent {
  int device = 0;
  int xid = 0;
};

// Used by one thread. A driver that hangs blocks whoever asks it.
class Nvml {
 public:
  // NotFound: there is no such library, and so no NVIDIA driver. FailedPrecondition: it does not
  // work, and what to do.
  static absl::StatusOr<std::unique_ptr<Nvml>> Open(const std::string& library = kNvmlLibrary);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::string DriverVersion() const;  // 580.82.07; empty: not told
  int CudaVersion() const;            // that the driver knows at most, 13000; 0: not told
  int count() const;                  // of devices, 0 to count() - 1 by PCI address

  // Unavailable: it does not answer. DataLoss: it is lost, or does not work before it is reset.
  absl::StatusOr<GpuIdentity> Identify(int device) const;
  absl::StatusOr<GpuReading> Read(int device) const;

  // From now on Xids are kept for WaitForXid. Whether those of all devices are: containers and old
  // drivers may not tell.
  bool BeginXids();
  // The next one, for which it waits at most so long.
  std::optional<XidEvent> WaitForXid(double seconds);

 private:
  struct Library;
  explicit Nvml(std::unique_ptr<Library> library);
  const std::unique_ptr<Library> library_;
};

}  // namespace strata::topology

#endif  // STRATA_TOPOLOGY_NVML_NVML_H_
