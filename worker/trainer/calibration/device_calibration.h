// Measures a machine's device: what it computes inside real steps, what it copies, and what passes
// between two of them.
#ifndef STRATA_WORKER_TRAINER_CALIBRATION_DEVICE_CALIBRATION_H_
#define STRATA_WORKER_TRAINER_CALIBRATION_DEVICE_CALIBRATION_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "proto/strata/v1/profile.pb.h"
#include "worker/engine/accelerator.h"

namespace strata::worker {

// The machine's device `ordinal`; see MakeAccelerator (worker/trainer/task_context.h).
using OpenDevice = std::function<absl::StatusOr<std::unique_ptr<Accelerator>>(
    int ordinal, collectives::Communicator* ranks)>;

struct DeviceCalibrateOptions {
  OpenDevice open;
  bool quick = false;  // tiny shapes and few repetitions: for tests
  std::function<void(const std::string&)> tell = [](const std::string&) {};  // what comes next
};

// On both ranks of a world of two. Rank 0 measures device 0, about two minutes, or a few seconds
// when quick; where there is a device 1, the ranks then measure what passes between both. Rank 0's
// result lacks the device's name, kind and build, which are the caller's to add; rank 1's is empty.
// A step that the device has no room for is left out, and told. Errors: those of opening device 0
// and of the communicators.
absl::StatusOr<v1::DeviceProfile> CalibrateDevice(collectives::Communicator& communicator,
                                                  const DeviceCalibrateOptions& options);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_CALIBRATION_DEVICE_CALIBRATION_H_
