// CUDA's streams and events as the engine's.
#ifndef STRATA_DEVICE_CUDA_CUDA_STREAM_H_
#define STRATA_DEVICE_CUDA_CUDA_STREAM_H_

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/cpu_stream.h"
#include "device/queue_device.h"

namespace strata::device {

class StreamValues;

// A place in the order of a CUDA stream, or of a lane, which a CUDA stream follows then: what waits
// on the device, or for it, need not know which.
class CudaEvent final : public Event {
 public:
  static absl::StatusOr<std::unique_ptr<CudaEvent>> Create(CpuDevice* lanes);
  ~CudaEvent() override;

  absl::StatusOr<bool> Reached() const override;
  absl::Status Synchronize() override;

  cudaEvent_t handle() const { return handle_; }

 private:
  friend class CudaStream;
  friend class LaneStream;
  enum class Place : uint8_t { kNowhere, kOnQueue, kOnLane };

  CudaEvent(CpuDevice* lanes, cudaEvent_t handle)
      : lanes_(lanes), handle_(handle), on_lane_(lanes->issuer()) {}

  CpuDevice* const lanes_;
  const cudaEvent_t handle_;
  CpuEvent on_lane_;
  Place place_ = Place::kNowhere;
};

class CudaTimeMark final : public TimeMark {
 public:
  static absl::StatusOr<std::unique_ptr<CudaTimeMark>> Create();
  ~CudaTimeMark() override;

  cudaEvent_t handle() const { return handle_; }

 private:
  explicit CudaTimeMark(cudaEvent_t handle) : handle_(handle) {}

  const cudaEvent_t handle_;
};

class CudaStream final : public QueueStream {
 public:
  // `values` and `counter`, a number in pinned memory, are borrowed.
  static absl::StatusOr<std::unique_ptr<CudaStream>> Create(const StreamValues* values,
                                                            uint32_t* counter);
  ~CudaStream() override;

  absl::Status Wait(const Event& event) override;
  absl::Status Record(Event& event) override;
  // Host functions call nothing of CUDA, and the stream stands while they run.
  absl::Status Launch(HostFunction function) override;
  absl::Status Copy(void* to, const void* from, int64_t bytes) override;
  absl::Status Count(uint32_t actions) override;
  uint32_t counted() const override;
  absl::Status BeginCapture() override;
  absl::StatusOr<std::unique_ptr<QueueGraph>> EndCapture() override;
  absl::Status LaunchGraph(const QueueGraph& graph) override;
  absl::Status Mark(TimeMark& mark) override;

  cudaStream_t handle() const { return handle_; }

 private:
  // Host functions that wait at most.
  static constexpr int64_t kCapacity = 256;
  struct Call {
    HostFunction function;
    CudaStream* stream;
  };

  CudaStream(const StreamValues* values, uint32_t* counter, cudaStream_t handle)
      : values_(values), counter_(counter), handle_(handle) {}
  static void CUDART_CB Run(void* call);

  const StreamValues* const values_;
  uint32_t* const counter_;
  const cudaStream_t handle_;
  std::array<Call, kCapacity> calls_;
  int64_t launched_ = 0;
  std::atomic<int64_t> ran_{0};
};

}  // namespace strata::device

#endif  // STRATA_DEVICE_CUDA_CUDA_STREAM_H_
