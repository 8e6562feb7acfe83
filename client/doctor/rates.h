// What `strata calibrate` found of this machine's memory and disks, as `strata doctor` shows it.
#ifndef STRATA_CLIENT_DOCTOR_RATES_H_
#define STRATA_CLIENT_DOCTOR_RATES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/doctor/checks.h"
#include "proto/strata/v1/profile.pb.h"

namespace strata::client {

// "io_uring: read 2.1, write 1.0, both 1.4 GB/s at a depth of 8": at the depth that does both
// fastest. Empty: it was not measured.
std::string DescribeDisk(const v1::DiskProfile& disk);

// Of what LoadProfile found. Nothing was measured: no finding.
std::vector<Finding> JudgeRates(const absl::StatusOr<std::optional<v1::Profile>>& profile);

}  // namespace strata::client

#endif  // STRATA_CLIENT_DOCTOR_RATES_H_
