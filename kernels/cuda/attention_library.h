// Attention of whole sequences by the kernels of a library, where it has faster ones than ours
// (kernels/cuda/attention.h, whose operands these are).
#ifndef STRATA_KERNELS_CUDA_ATTENTION_LIBRARY_H_
#define STRATA_KERNELS_CUDA_ATTENTION_LIBRARY_H_

#include <cuda_runtime_api.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/attention.h"
#include "kernels/number_types.h"

namespace strata::kernels::cuda {

// Running a plan queues work on its stream: it allocates nothing, waits for nothing, and may be
// captured in a graph. The same bits in every run. One caller at a time.
class AttentionForwardPlan {
 public:
  virtual ~AttentionForwardPlan() = default;
  virtual absl::Status Run(const void* qkv, void* out, float* lse) const = 0;
};

class AttentionBackwardPlan {
 public:
  virtual ~AttentionBackwardPlan() = default;
  virtual absl::Status Run(const void* dout, const void* qkv, const void* out, const float* lse,
                           void* dqkv) const = 0;
};

// Plans are made when a program is loaded, and live as long as the library; graphs that are
// captured of them do not outlive it. One caller at a time. Errors of plans: why the library has no
// kernels for the shape, or no memory for its workspace; ours are then to be used.
class AttentionLibrary {
 public:
  virtual ~AttentionLibrary() = default;
  virtual absl::StatusOr<const AttentionForwardPlan*> Forward(cudaStream_t stream,
                                                              const AttentionShape& shape,
                                                              NumberType type) = 0;
  virtual absl::StatusOr<const AttentionBackwardPlan*> Backward(cudaStream_t stream,
                                                                const AttentionShape& shape,
                                                                NumberType type) = 0;
  // With which kernels the plans that were asked for compute, in a line; empty: none was.
  virtual std::string Summary() const = 0;
};

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_ATTENTION_LIBRARY_H_
