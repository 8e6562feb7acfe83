// Softmax cross entropy over rows of logits on CUDA devices, in nats: what kernels/cross_entropy.h
// computes, with the loss of each row (AddInOrder of elementwise.h sums them as the CPU does). T is
// float, BFloat16 or Float16; pointers are to device memory; work is queued on the stream.
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

// The same with *scale, as the device finds it when the kernel runs.
template <typename T>
absl::Status CrossEntropyForwardBackward(cudaStream_t stream, const LossShape& shape,
                                         const double* scale, const int32_t* targets, T* logits,
                                         float* losses);

// Only the losses.
template <typename T>
absl::Status CrossEntropyForward(cudaStream_t stream, const LossShape& shape,
                                 const int32_t* targets, const T* logits, float* losses);

// With the vocabulary cut over ranks: each has the columns [first, first + columns) of the logits.
struct VocabularyPart {
  int64_t rows = 0;  // N
  int64_t columns = 0;
  int64_t first = 0;
  float softcap = 0;    // as above
  int64_t padding = 0;  // of the columns, the last ones that are no token's: gradients of 0
};

// statistics[N, 3]: of the part's logits, capped ones if so, in each row the maximum, Σ exp(logit -
// maximum), and the target's logit, 0 where the target is of another part.
template <typename T>
absl::Status CrossEntropyStatistics(cudaStream_t stream, const VocabularyPart& part,
                                    const int32_t* targets, const T* logits, float* statistics);

// The logits of one part become their gradient, as CrossEntropyForwardBackward's, with *scale and
// the statistics[parts, N, 3] of all parts. *loss += the losses of whole rows, one by one in
// ascending order: the same on every rank.
template <typename T>
absl::Status CrossEntropyFinish(cudaStream_t stream, const VocabularyPart& part, int64_t parts,
                                const double* scale, const int32_t* targets,
                                const float* statistics, T* logits, double* loss);

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_CROSS_ENTROPY_H_
