// Whether a GPU takes ranks, from what its driver has told since the program began.
#ifndef STRATA_TOPOLOGY_NVML_GPU_HEALTH_H_
#define STRATA_TOPOLOGY_NVML_GPU_HEALTH_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "topology/nvml/nvml.h"

namespace strata::topology {

// What needs a reset stays so for as long as this object lives: a GPU is reset without programs
// that use it, and whoever watches it begins anew afterwards.
//
// Unhealthy: an Xid that asks for a reset, a lost device, uncorrectable memory errors that grow
// again after the first growth, rows of memory that could not be replaced, a driver that does not
// answer. Degraded: an Xid that asks for a look, uncorrectable errors, rows that wait for a reset
// ("A pending remapping won't affect future work": nvml.h), clocks lowered by heat or power.
class GpuHealth {
 public:
  enum class Level { kHealthy, kDegraded, kUnhealthy };

  void OnXid(int xid);
  // What Nvml::Read returned.
  void OnReading(const absl::StatusOr<GpuReading>& reading);

  Level level() const;
  std::string reason() const;                                   // for people; empty of healthy ones
  const std::map<int, int64_t>& xids() const { return xids_; }  // how often each came

 private:
  void Judge(const GpuReading& reading);

  std::map<int, int64_t> xids_;
  int failed_xid_ = 0, degraded_xid_ = 0;  // the first of each kind; 0: none
  std::string lost_;
  std::optional<int64_t> uncorrected_;  // as read last
  int growths_ = 0;                     // readings with more of them than before
  // Of the last reading.
  std::string silent_;
  bool remap_failed_ = false, remap_pending_ = false, throttled_ = false;
};

// FailedPrecondition: Strata does not run on it, why, and what to do.
absl::Status CheckUsable(const GpuIdentity& gpu, int device);

}  // namespace strata::topology

#endif  // STRATA_TOPOLOGY_NVML_GPU_HEALTH_H_
