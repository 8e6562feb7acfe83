// What things cost on a machine's GPUs that were measured (strata calibrate --device gpu).
#ifndef STRATA_PLANNER_COST_DEVICE_COST_MODEL_H_
#define STRATA_PLANNER_COST_DEVICE_COST_MODEL_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "planner/cost/measured_times.h"
#include "planner/cost/profile_cost_model.h"
#include "program/readers/timeline.h"
#include "proto/strata/v1/profile.pb.h"

namespace strata::planner {

// Whose steps are to be predicted: a job's, by what it calls its device.
struct ProfiledDevice {
  std::string host;
  std::string device;    // "gpu": any; else a kind: "h200"
  bool standin = false;  // jobs run on the stand-in of CUDA, which is any kind
};

// What the profile has of such a device; borrowed from it. FailedPrecondition, saying what to do:
// it is of another host, or has none of the kind, or, for any kind, several.
absl::StatusOr<const v1::DeviceProfile*> FindDevice(const v1::Profile& profile,
                                                    const ProfiledDevice& wanted);

// "NVIDIA H200's, of this machine (strata calibrate --device gpu)"; of the stand-in that its times
// mean nothing; of several ranks that communication has usual rates where it was not measured.
std::string DescribeTimes(const v1::DeviceProfile& device, int64_t ranks);

// What a device's kernels have nothing to say of, borrowed, and null where it was not measured
// either.
struct BesideDevice {
  const v1::RankProfile* host = nullptr;  // of updates in host memory
  const v1::DiskRate* disks = nullptr;    // the rank's part
  program::Rates usual;                   // of devices: of communication
};

class DeviceCostModel final : public program::CostModel {
 public:
  DeviceCostModel(const v1::DeviceProfile& device, const BesideDevice& beside);

  // As ProfileCostModel's.
  double OpSeconds(const program::Op& op) const override { return kernels_.OpSeconds(op); }
  double HostOpSeconds(const program::Op& op) const override { return host_->OpSeconds(op); }
  // Where the machine had one device, by usual rates.
  double CollectiveSeconds(const program::Communication& communication,
                           program::GroupSpan group) const override;
  double MessageSeconds(const program::Communication& communication,
                        program::GroupSpan group) const override;
  // Between host and device each way's own; with SSD as ProfileCostModel's, or, where disks were
  // not measured, as copies to the device.
  double TransferSeconds(program::Tier from, program::Tier to, int64_t bytes) const override;
  double BothWays(program::Tier from, program::Tier to) const override;

 private:
  const bool communicates_;
  const ProfileCostModel kernels_;
  std::unique_ptr<const program::CostModel> host_;
  const program::RateCostModel usual_;
  TimesBySize to_device_, from_device_;
  double to_stretch_ = 1, from_stretch_ = 1;  // of the largest copies
};

}  // namespace strata::planner

#endif  // STRATA_PLANNER_COST_DEVICE_COST_MODEL_H_
