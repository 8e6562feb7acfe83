// How long bytes take to and from a device, and between two.
#ifndef STRATA_WORKER_TRAINER_CALIBRATION_DEVICE_LINK_TIMES_H_
#define STRATA_WORKER_TRAINER_CALIBRATION_DEVICE_LINK_TIMES_H_

#include "absl/status/status.h"
#include "collectives/communicator.h"
#include "device/queue_device.h"
#include "proto/strata/v1/profile.pb.h"
#include "worker/engine/accelerator.h"

namespace strata::worker {

// Adds the times of copies from and to pinned host memory, each way alone and both at once. On the
// device's thread.
absl::Status MeasureDeviceCopies(device::QueueDevice& device, bool quick,
                                 v1::DeviceProfile& profile);

// Adds those of every operation between the devices of the two ranks of `world`, both of which call
// it. The accelerator communicates by `communicator`'s ranks.
absl::Status MeasureDeviceLinks(Accelerator& accelerator, collectives::Communicator& communicator,
                                collectives::GroupId world, bool quick, v1::DeviceProfile& profile);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_CALIBRATION_DEVICE_LINK_TIMES_H_
