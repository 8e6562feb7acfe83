#include "worker/trainer/calibration/head_start.h"

#include <algorithm>

#include "common/status_macros.h"

namespace strata::worker {
namespace {

constexpr int64_t kBytes = 256 << 20, kQuickBytes = 64 << 10;
constexpr double kSeconds = 4e-3;  // in which a host hands over several hundred kernels
constexpr int kMostCopies = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<HeadStart>> HeadStart::Create(device::QueueDevice* device,
                                                             bool quick) {
  std::unique_ptr<HeadStart> made(new HeadStart(device, quick ? kQuickBytes : kBytes));
  ASSIGN_OR_RETURN(made->memory_, device->Reserve(device::Memory::kDevice, 2 * made->bytes_));
  RETURN_IF_ERROR(device->Commit(device::Memory::kDevice, made->memory_, 2 * made->bytes_));
  if (!quick) RETURN_IF_ERROR(made->Size(kSeconds));
  return made;
}

HeadStart::~HeadStart() {
  if (memory_ != nullptr) device_->Release(device::Memory::kDevice, memory_, 2 * bytes_);
}

absl::Status HeadStart::Size(double seconds) {
  ASSIGN_OR_RETURN(device::QueueStream* const queue, device_->CreateQueue());
  ASSIGN_OR_RETURN(const auto begin, device_->CreateTimeMark());
  ASSIGN_OR_RETURN(const auto end, device_->CreateTimeMark());
  RETURN_IF_ERROR(Give(*queue));  // the first wakes the device
  RETURN_IF_ERROR(queue->Mark(*begin));
  RETURN_IF_ERROR(Give(*queue));
  RETURN_IF_ERROR(queue->Mark(*end));
  RETURN_IF_ERROR(Finish(*device_, *queue));
  ASSIGN_OR_RETURN(const double one, device_->SecondsBetween(*begin, *end));
  copies_ = one > 0 ? static_cast<int>(std::clamp(seconds / one, 1.0, 1.0 * kMostCopies)) : 1;
  return absl::OkStatus();
}

absl::Status HeadStart::Give(device::QueueStream& queue) const {
  for (int copy = 0; copy < copies_; ++copy) {
    RETURN_IF_ERROR(queue.Copy(memory_ + bytes_, memory_, bytes_));
  }
  return absl::OkStatus();
}

absl::Status Finish(device::QueueDevice& device, device::QueueStream& queue) {
  ASSIGN_OR_RETURN(const std::unique_ptr<device::Event> end, device.CreateEvent());
  RETURN_IF_ERROR(queue.Record(*end));
  return end->Synchronize();
}

}  // namespace strata::worker
