// AdamW on CUDA devices (kernels/adamw.h), over flat arrays, and what clipping needs of gradients.
// Weights and gradients are float or BFloat16; masters and moments are f32. Pointers are to device
// memory; work is queued on the stream.
#ifndef STRATA_KERNELS_CUDA_ADAMW_H_
#define STRATA_KERNELS_CUDA_ADAMW_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"

namespace strata::kernels::cuda {

// Of gradients, in device memory.
struct GradientStatistics {
  double squares = 0;       // their sum
  uint64_t not_finite = 0;  // 1: there is an infinity or a NaN
};

int64_t GradientStatisticsWorkspaceBytes(int64_t count);

// One pass over the gradient by a fixed number of blocks, one over these: the same bits in every
// run and on every device. `add`: to what *statistics says of other arrays.
template <typename G>
absl::Status ReadGradientStatistics(cudaStream_t stream, int64_t count, const G* gradient, bool add,
                                    GradientStatistics* statistics, void* workspace);

struct AdamWParams {
  double learning_rate = 0;
  double beta1 = 0.9, beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;  // decoupled, times the learning rate
  int64_t step = 1;         // this update's number among those applied, from 1
  double grad_factor = 1;   // multiplied into the gradient, of whose product the norm is clipped
  double clip = 0;          // 0: no clipping; else the gradient's greatest norm
};

// Updates master, m and v in place, and rounds the master to weights, which may be null where
// nothing else reads them. f32 weights are their own master: `weights` is null or `master`. With
// `statistics` (else null), those of the whole gradient, the clip factor min(1, clip / (norm +
// 1e-6)) is multiplied in, and nothing changes if the gradient is not finite.
template <typename W, typename G>
absl::Status AdamW(cudaStream_t stream, int64_t count, const AdamWParams& params,
                   const GradientStatistics* statistics, const G* gradient, float* master, float* m,
                   float* v, W* weights);

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_ADAMW_H_
