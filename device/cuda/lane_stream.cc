#include "device/cuda/lane_stream.h"

#include <atomic>

#include "common/status_macros.h"
#include "device/cuda/cuda_status.h"
#include "device/cuda/cuda_stream.h"

namespace strata::device {

absl::StatusOr<std::unique_ptr<LaneStream>> LaneStream::Create(CpuDevice* lanes, CpuStream* lane,
                                                               const StreamValues* values,
                                                               uint32_t* ended) {
  cudaStream_t follower = nullptr;
  RETURN_IF_ERROR(
      CudaStatus("creating a stream", cudaStreamCreateWithFlags(&follower, cudaStreamNonBlocking)));
  return std::unique_ptr<LaneStream>(new LaneStream(lanes, lane, values, ended, follower));
}

LaneStream::LaneStream(CpuDevice* lanes, CpuStream* lane, const StreamValues* values,
                       uint32_t* ended, cudaStream_t follower)
    : lanes_(lanes),
      lane_(lane),
      values_(values),
      ended_(ended),
      follower_(follower),
      arrivals_(lanes->CreateOutsideStream()),
      arrival_(lanes->issuer()) {
  lane_->MirrorEnded(ended_);
}

LaneStream::~LaneStream() { cudaStreamDestroy(follower_); }

absl::Status LaneStream::Wait(const Event& event) {
  const auto& place = static_cast<const CudaEvent&>(event);
  if (place.place_ == CudaEvent::Place::kNowhere) return absl::OkStatus();
  RETURN_IF_ERROR(CudaStatus("a lane's wait for a stream",
                             cudaStreamWaitEvent(follower_, place.handle_, cudaEventWaitDefault)));
  if (place.place_ == CudaEvent::Place::kOnLane) return lane_->Wait(place.on_lane_);
  arrivals_->ExpectOne();
  RETURN_IF_ERROR(arrivals_->Record(arrival_));
  RETURN_IF_ERROR(CudaStatus("telling a lane of a stream",
                             cudaLaunchHostFunc(follower_, &LaneStream::Arrive, arrivals_)));
  return lane_->Wait(arrival_);
}

absl::Status LaneStream::Record(Event& event) {
  auto& place = static_cast<CudaEvent&>(event);
  place.place_ = CudaEvent::Place::kOnLane;
  RETURN_IF_ERROR(lane_->Record(place.on_lane_));
  lanes_->Announce();  // the device may stand for it
  RETURN_IF_ERROR(values_->Wait(follower_, ended_, static_cast<uint32_t>(lane_->issued())));
  return CudaStatus("recording an event", cudaEventRecord(place.handle_, follower_));
}

void LaneStream::LetFollowerGo() {
  std::atomic_ref<uint32_t>(*ended_).store(static_cast<uint32_t>(lane_->issued()));
  // An error has been told already, or concerns nobody any more.
  cudaStreamSynchronize(follower_);
}

}  // namespace strata::device
