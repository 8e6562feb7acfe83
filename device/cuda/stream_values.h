// Numbers in host memory that streams wait for and write, by the driver's stream memory operations.
#ifndef STRATA_DEVICE_CUDA_STREAM_VALUES_H_
#define STRATA_DEVICE_CUDA_STREAM_VALUES_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace strata::device {

// The process's driver. `at` lies in pinned memory.
class StreamValues {
 public:
  // Unimplemented: a driver without them.
  static absl::StatusOr<StreamValues> Find();

  // What is queued later begins when (int32_t)(*at - value) >= 0.
  absl::Status Wait(cudaStream_t stream, const uint32_t* at, uint32_t value) const;
  // *at becomes the value when what was queued before has ended.
  absl::Status Write(cudaStream_t stream, uint32_t* at, uint32_t value) const;

 private:
  using Function = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
  StreamValues(Function wait, Function write) : wait_(wait), write_(write) {}

  Function wait_, write_;
};

}  // namespace strata::device

#endif  // STRATA_DEVICE_CUDA_STREAM_VALUES_H_
