// Work that lets the host get ahead of a device.
#ifndef STRATA_WORKER_TRAINER_CALIBRATION_HEAD_START_H_
#define STRATA_WORKER_TRAINER_CALIBRATION_HEAD_START_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/queue_device.h"

namespace strata::worker {

// A device that is faster than the host hands it work stands between two kernels, and times on it
// would be the host's. So it gets some milliseconds of copies first, behind which work gathers.
// Nothing waits for the host, so that a queue that is full holds nothing up for ever.
class HeadStart {
 public:
  // On the thread that made the device, which is borrowed. Quick: hardly any. ResourceExhausted: no
  // room for what is copied.
  static absl::StatusOr<std::unique_ptr<HeadStart>> Create(device::QueueDevice* device, bool quick);
  ~HeadStart();
  HeadStart(const HeadStart&) = delete;
  HeadStart& operator=(const HeadStart&) = delete;

  absl::Status Give(device::QueueStream& queue) const;

 private:
  HeadStart(device::QueueDevice* device, int64_t bytes) : device_(device), bytes_(bytes) {}
  absl::Status Size(double seconds);

  device::QueueDevice* const device_;
  const int64_t bytes_;          // of a copy
  std::byte* memory_ = nullptr;  // twice as many, from the first half to the second
  int copies_ = 1;
};

// Returns when all that the queue was handed has ended. On the device's thread.
absl::Status Finish(device::QueueDevice& device, device::QueueStream& queue);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_CALIBRATION_HEAD_START_H_
