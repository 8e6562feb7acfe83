// A lane's stream among CUDA's: each such lane has a CUDA stream that follows it.
//
// The follower does nothing but wait: where the lane records an event, for the lane to come there
// (a number in memory that the lane counts up), and records it in its place; where the lane waits
// for a CUDA stream, it does so for it and tells the lane by a host function. So every event is one
// of CUDA's, no stream that computes stands for a lane's sake or for a host function, and what the
// lane has waited for comes before what waits for the lane on the device, too.
//
// The follower waits for what came earlier in the list, always: it cannot hold up what it waits
// for, even where CUDA puts streams into one queue of the hardware.
#ifndef STRATA_DEVICE_CUDA_LANE_STREAM_H_
#define STRATA_DEVICE_CUDA_LANE_STREAM_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/cpu_device.h"
#include "device/cuda/stream_values.h"

namespace strata::device {

class LaneStream final : public Stream {
 public:
  // `ended` lies in pinned memory. All are borrowed.
  static absl::StatusOr<std::unique_ptr<LaneStream>> Create(CpuDevice* lanes, CpuStream* lane,
                                                            const StreamValues* values,
                                                            uint32_t* ended);
  ~LaneStream() override;

  absl::Status Wait(const Event& event) override;
  absl::Status Record(Event& event) override;
  absl::Status Launch(HostFunction function) override { return lane_->Launch(function); }
  absl::Status Copy(void* to, const void* from, int64_t bytes) override {
    return lane_->Copy(to, from, bytes);
  }

  // For those who check the order of streams: the follower, and the number that it waits for.
  cudaStream_t follower() const { return follower_; }
  const uint32_t* ended() const { return ended_; }
  uint32_t issued() const { return static_cast<uint32_t>(lane_->issued()); }

  // For the end of the device, when lanes have stopped: the follower waits for nothing any more.
  void LetFollowerGo();

 private:
  LaneStream(CpuDevice* lanes, CpuStream* lane, const StreamValues* values, uint32_t* ended,
             cudaStream_t follower);
  static void CUDART_CB Arrive(void* arrivals) { static_cast<CpuStream*>(arrivals)->EndOne(); }

  CpuDevice* const lanes_;
  CpuStream* const lane_;
  const StreamValues* const values_;
  uint32_t* const ended_;
  const cudaStream_t follower_;
  CpuStream* const arrivals_;  // of the follower, where the lane waits for CUDA streams
  CpuEvent arrival_;
};

}  // namespace strata::device

#endif  // STRATA_DEVICE_CUDA_LANE_STREAM_H_
