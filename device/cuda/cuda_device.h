// A CUDA device: streams are CUDA's, memory is the device's and pinned pages of the host.
#ifndef STRATA_DEVICE_CUDA_CUDA_DEVICE_H_
#define STRATA_DEVICE_CUDA_CUDA_DEVICE_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/cpu_device.h"
#include "device/cuda/cuda_stream.h"
#include "device/queue_device.h"

namespace strata::device {

class LaneStream;
class StreamValues;

// Used by one thread, which makes it, CopyNow apart. Host memory is reached by kernels at the
// host's addresses. Device memory is there from Reserve on; to release either kind waits for the
// device.
class CudaDevice final : public QueueDevice {
 public:
  // Errors: CUDA's, such as FailedPrecondition where there is no device `ordinal`; Unimplemented: a
  // driver, or a machine, that lacks what is needed.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Create(int ordinal);
  // Ends lanes and waits for the device. Events are gone by then.
  ~CudaDevice() override;

  const std::string& name() const { return name_; }  // as the driver calls it
  int capability() const { return capability_; }     // to compute: 90 for 9.0
  CpuDevice& lanes() override { return lanes_; }
  absl::StatusOr<Stream*> CreateStream(Service service) override;
  absl::Status CopyNow(void* to, const void* from, int64_t bytes) override;
  absl::StatusOr<int64_t> UsedBytes() override;
  absl::StatusOr<QueueStream*> CreateQueue() override;
  absl::StatusOr<std::unique_ptr<TimeMark>> CreateTimeMark() override;
  absl::StatusOr<double> SecondsBetween(const TimeMark& begin, const TimeMark& end) override;
  absl::StatusOr<Stream*> Adopt(CpuStream* stream) override;
  absl::StatusOr<std::unique_ptr<Event>> CreateEvent() override;

  absl::StatusOr<std::byte*> Reserve(Memory memory, int64_t bytes) override;
  absl::Status Commit(Memory memory, std::byte* data, int64_t bytes) override;
  void Release(Memory memory, std::byte* data, int64_t bytes) override;
  bool IsHostAccessible(Memory memory) const override { return memory == Memory::kHost; }

 private:
  CudaDevice();
  absl::Status Open(int ordinal);
  absl::StatusOr<uint32_t*> NewNumber();
  absl::Status Zero(std::byte* data, int64_t bytes);
  absl::Status Pin(std::byte* data, int64_t bytes);

  CpuDevice lanes_;
  std::unique_ptr<const StreamValues> values_;
  uint32_t* numbers_ = nullptr;  // pinned; each on a cache line of its own
  int used_numbers_ = 0;
  int ordinal_ = 0;
  std::string name_;
  int capability_ = 0;
  std::mutex own_mutex_;
  cudaStream_t own_ = nullptr;  // of copies and zeros that are waited for
  std::set<const std::byte*> pinned_;
  std::vector<std::unique_ptr<CudaStream>> streams_;
  std::vector<std::unique_ptr<LaneStream>> lane_streams_;
};

}  // namespace strata::device

#endif  // STRATA_DEVICE_CUDA_CUDA_DEVICE_H_
