// What binders of CUDA launches share.
#ifndef STRATA_WORKER_ENGINE_CUDA_LAUNCHING_H_
#define STRATA_WORKER_ENGINE_CUDA_LAUNCHING_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "device/cuda/cuda_stream.h"
#include "kernels/number_types.h"
#include "program/ir/types.h"
#include "worker/engine/accelerator.h"
#include "worker/engine/op_reader.h"

namespace strata::kernels::cuda {
class MatmulLibrary;
}  // namespace strata::kernels::cuda

namespace strata::worker {

// Of any op that is launched on the stream, one after the other: what ops have no operand for.
inline constexpr int64_t kStreamScratchBytes = 8192;

struct Launching {
  cudaStream_t stream = nullptr;
  LaunchSite site;
  kernels::cuda::MatmulLibrary* products = nullptr;
  std::byte* scratch = nullptr;  // on the device
};

// What `body` makes of a number of the type that kernels of the device have. Fails the reader where
// they have none.
template <typename Body>
BoundOp WithDeviceNumber(OpReader& reader, program::DType type, const Body& body) {
  if (type == program::DType::kF32) return body(float());
  if (type == program::DType::kBF16) return body(kernels::BFloat16());
  reader.Fail(absl::UnimplementedError(
      absl::StrCat("the device has no kernel for ", Name(type), "; train in bf16 or f32")));
  return {};
}

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_CUDA_LAUNCHING_H_
