#include "topology/nvml/gpu_health.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "topology/nvml/xid.h"

namespace strata::topology {
namespace {

constexpr int kLeastCapability = 8;  // A100: the oldest that kernels are compiled for

std::string Describe(int xid) { return absl::StrCat("Xid ", xid, ": ", MeaningOf(xid).text); }

}  // namespace

void GpuHealth::OnXid(int xid) {
  ++xids_[xid];
  const XidEffect effect = MeaningOf(xid).effect;
  if (effect == XidEffect::kFails && failed_xid_ == 0) failed_xid_ = xid;
  if (effect == XidEffect::kDegrades && degraded_xid_ == 0) degraded_xid_ = xid;
}

void GpuHealth::OnReading(const absl::StatusOr<GpuReading>& reading) {
  silent_.clear();
  if (reading.ok()) return Judge(*reading);
  std::string& text = absl::IsDataLoss(reading.status()) ? lost_ : silent_;
  text = std::string(reading.status().message());
}

void GpuHealth::Judge(const GpuReading& reading) {
  if (reading.ecc_uncorrected.has_value()) {
    if (uncorrected_.has_value() && *reading.ecc_uncorrected > *uncorrected_) ++growths_;
    uncorrected_ = reading.ecc_uncorrected;
  }
  remap_failed_ = reading.remap_failed.value_or(false);
  remap_pending_ = reading.remap_pending.value_or(false);
  throttled_ = reading.throttled.value_or(false);
}

GpuHealth::Level GpuHealth::level() const {
  if (failed_xid_ != 0 || !lost_.empty() || !silent_.empty() || growths_ > 1 || remap_failed_) {
    return Level::kUnhealthy;
  }
  const bool fine =
      degraded_xid_ == 0 && uncorrected_.value_or(0) == 0 && !remap_pending_ && !throttled_;
  return fine ? Level::kHealthy : Level::kDegraded;
}

std::string GpuHealth::reason() const {
  std::vector<std::string> reasons;
  if (failed_xid_ != 0) reasons.push_back(Describe(failed_xid_));
  if (!lost_.empty()) reasons.push_back(lost_);
  if (!silent_.empty()) reasons.push_back(silent_);
  if (remap_failed_) reasons.emplace_back("rows of its memory could not be replaced: exchange it");
  if (const int64_t errors = uncorrected_.value_or(0); errors > 0) {
    reasons.push_back(absl::StrCat(errors, " uncorrectable memory errors since its driver began",
                                   growths_ > 1 ? ", and they grow" : ""));
  }
  if (degraded_xid_ != 0) reasons.push_back(Describe(degraded_xid_));
  if (remap_pending_) reasons.emplace_back("rows of its memory wait for a reset to be replaced");
  if (throttled_) reasons.emplace_back("its clocks are lowered by heat or its power supply");
  return absl::StrJoin(reasons, "; ");
}

absl::Status CheckUsable(const GpuIdentity& gpu, int device) {
  const std::string name = absl::StrCat("GPU ", device, " (", gpu.product, ")");
  if (gpu.capability_major != 0 && gpu.capability_major < kLeastCapability) {
    return absl::FailedPreconditionError(absl::StrCat(
        name, " is of compute capability ", gpu.capability_major, ".", gpu.capability_minor,
        ", and Strata's kernels are compiled for 8.0 (A100) and newer",
        gpu.capability_major < 7 || (gpu.capability_major == 7 && gpu.capability_minor < 5)
            ? ", as CUDA 13 knows none older than 7.5"
            : "",
        ": let this node serve with --devices N, on its CPU"));
  }
  if (gpu.mig) {
    return absl::FailedPreconditionError(absl::StrCat(
        name,
        " is cut into instances (MIG), which have no NVLink and cannot be told apart here: "
        "switch it off (nvidia-smi -i ",
        device, " -mig 0), or take it from this agent"));
  }
  return absl::OkStatus();
}

}  // namespace strata::topology
