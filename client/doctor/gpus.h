// What `strata doctor` finds of NVIDIA's GPUs, their driver and libraries. Reading is separate from
// judging.
#ifndef STRATA_CLIENT_DOCTOR_GPUS_H_
#define STRATA_CLIENT_DOCTOR_GPUS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/doctor/checks.h"
#include "topology/nvml/nvml.h"

namespace strata::client {

// A library of NVIDIA's that trainers on GPUs load.
struct GpuLibrary {
  std::string name;                    // NCCL
  std::string file;                    // libnccl.so.2, as dlopen takes it
  std::string purpose;                 // why it matters
  std::optional<std::string> version;  // absent: it cannot be loaded; empty: not told
};

struct Gpu {
  absl::StatusOr<topology::GpuIdentity> identity;
  absl::StatusOr<topology::GpuReading> reading;
};

struct GpuFacts {
  absl::Status nvml;  // NotFound: there is no driver
  std::string driver;
  int cuda = 0;  // that the driver knows at most, 13000
  std::vector<Gpu> gpus;
  std::vector<GpuLibrary> libraries;
};

// `library`: NVML, as dlopen takes it. Without a driver nothing else is looked for.
GpuFacts ReadGpus(const std::string& library = topology::kNvmlLibrary);
std::vector<Finding> JudgeGpus(const GpuFacts& facts);

}  // namespace strata::client

#endif  // STRATA_CLIENT_DOCTOR_GPUS_H_
