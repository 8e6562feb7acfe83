// Softmax cross entropy over rows of logits on CUDA devices, in nats: what kernels/cross_entropy.h
// computes, with the loss of each row, so that whoever sums them chooses the order. T is float or
// BFloat16; pointers are to device memory; work is queued on the stream.
#ifndef STRATA_KERNELS_CUDA_CROSS_ENTROPY_H_
#define STRATA_KERNELS_CUDA_CROSS_ENTROPY_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"

namespace strata::kernels::cuda {

struct LossShape {
  int64_t rows = 0;   // N
  int64_t vocab = 0;  // V
  // 0: none. Else the loss is that of softcap * tanh(logits / softcap); gradients are those towards
  // the logits.
  float softcap = 0;
};

// logits[N, V], targets[N] (below V; negative: the row is ignored) -> losses[N], 0 in ignored rows;
// logits become their gradient in place: (softmax - onehot(target)) * scale, zeros in ignored rows.
template <typename T>
absl::Status CrossEntropyForwardBackward(cudaStream_t stream, const LossShape& shape, float scale,
                                         const int32_t* targets, T* logits, float* losses);

// Only the losses.
template <typename T>
absl::Status CrossEntropyForward(cudaStream_t stream, const LossShape& shape,
                                 const int32_t* targets, const T* logits, float* losses);

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_CROSS_ENTROPY_H_
