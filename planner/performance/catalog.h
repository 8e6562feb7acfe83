// The hardware, software and calibrations that Strata ships (planner/profiles), and which of them
// answer for a machine, a precision and a release.
#ifndef STRATA_PLANNER_PERFORMANCE_CATALOG_H_
#define STRATA_PLANNER_PERFORMANCE_CATALOG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/performance/machine.h"
#include "proto/strata/v1/hardware.pb.h"

namespace strata::planner {

// As the catalog names this system's own programs.
inline constexpr char kOwnFramework[] = "strata";

// Absent fields are the GPU's own.
struct MachineRequest {
  std::string gpu;  // a name or an alias, upper or lower case
  Precision precision = Precision::kHalf;
  std::string release;    // "dgxc-v25.04"; may be unknown or empty
  std::string framework;  // "Megatron-LM"; may be unknown or empty
  std::optional<int64_t> node_devices;
  std::optional<int64_t> domain_devices;
  std::optional<double> network_rate;
  // For a GPU that the catalog lacks: the best known one of this peak stands in, scaled.
  std::optional<double> half_peak;
  // Of one device; decides, too, where a name stands for cards of several sizes: a100, v100.
  std::optional<double> memory_bytes;
};

struct FoundMachine {
  Machine machine;
  std::string software;     // the family's name
  std::string calibration;  // "H100 fp8 mlperf-v4.0"; "default" where none was near
};

class Catalog {
 public:
  // Checks that names are unique and figures positive.
  static absl::StatusOr<Catalog> From(v1::HardwareCatalog profiles);
  // The one that is part of the program.
  static const Catalog& Shipped();

  // NotFound: the GPU is not known and no peak was given. FailedPrecondition: it does not support
  // the precision.
  //
  // The calibration: the release's own; of the same family the latest release before it, else the
  // earliest; of the families that the software names; that for any release; that of the GPUs that
  // this one is like; the same of the nearest precision; else the defaults of Calibration.
  absl::StatusOr<FoundMachine> Find(const MachineRequest& request) const;

  // Whether a kind of devices, as nodes register it, may be the GPU of this name: "a100" is an
  // A100-40GB or an A100-80GB, "a100-40" the first alone.
  bool MayBe(absl::string_view kind, absl::string_view name) const;

  // By a name or an alias, upper or lower case. Of GPUs of one product the one whose memory is
  // nearest; without it the alias's. Null: not known.
  const v1::GpuProfile* GpuNamed(absl::string_view name,
                                 std::optional<double> memory_bytes = std::nullopt) const;
  // "H100, H200, …", for messages.
  std::string KnownNames() const;

  const v1::HardwareCatalog& profiles() const { return profiles_; }

 private:
  const v1::SoftwareProfile& SoftwareOf(absl::string_view release,
                                        absl::string_view framework) const;
  const v1::CalibrationProfile* CalibrationOf(const v1::GpuProfile& gpu,
                                              absl::string_view precision,
                                              const v1::SoftwareProfile& software,
                                              absl::string_view release) const;
  const v1::CalibrationProfile* Nearest(absl::string_view gpu, absl::string_view precision,
                                        absl::string_view family, absl::string_view release) const;

  v1::HardwareCatalog profiles_;
};

// The record as the model has it.
Calibration ToCalibration(const v1::CalibrationProfile& record);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_PERFORMANCE_CATALOG_H_
