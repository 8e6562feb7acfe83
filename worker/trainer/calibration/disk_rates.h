// What the SSD tier would get of a disk.
#ifndef STRATA_WORKER_TRAINER_CALIBRATION_DISK_RATES_H_
#define STRATA_WORKER_TRAINER_CALIBRATION_DISK_RATES_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/strata/v1/profile.pb.h"

namespace strata::worker {

// Reads, writes, and does both at once, by depth; about 20 s, or a moment when quick, which is
// rough. Takes 256 MiB of the disk and of memory meanwhile. Errors: those of memory::SsdStore, as
// NotFound for a folder that is not there.
absl::StatusOr<v1::DiskProfile> MeasureDisk(const std::string& directory, bool quick);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_CALIBRATION_DISK_RATES_H_
