// What binders of CUDA launches share.
#ifndef STRATA_WORKER_ENGINE_CUDA_LAUNCHING_H_
#define STRATA_WORKER_ENGINE_CUDA_LAUNCHING_H_

#include <cstddef>
#include <cstdint>

#include "device/cuda/cuda_stream.h"
#include "worker/engine/accelerator.h"
#include "worker/engine/binding/number_type.h"
#include "worker/engine/op_reader.h"

namespace strata::kernels::cuda {
class AttentionLibrary;
class MatmulLibrary;
}  // namespace strata::kernels::cuda

namespace strata::worker {

// Of any op that is launched on the stream, one after the other: what ops have no operand for.
inline constexpr int64_t kStreamScratchBytes = 8192;

struct Launching {
  cudaStream_t stream = nullptr;
  LaunchSite site;
  kernels::cuda::MatmulLibrary* products = nullptr;
  kernels::cuda::AttentionLibrary* attention = nullptr;  // null: our kernels alone
  std::byte* scratch = nullptr;                          // on the device
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_CUDA_LAUNCHING_H_
