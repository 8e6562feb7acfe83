// AdamW on CUDA devices (kernels/adamw.h). Pointers are to what the device reaches; work is queued
// on the stream.
#ifndef STRATA_KERNELS_CUDA_ADAMW_H_
#define STRATA_KERNELS_CUDA_ADAMW_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/cuda/update.h"

namespace strata::kernels::cuda {

struct AdamWRates {
  double beta1 = 0.9, beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;  // decoupled, times the learning rate; of segments that have it
};

// One update of the segments, in numbers of any types: ops AdamW (all f32) and MixedAdamW. Each
// output may be its own input.
absl::Status AdamW(cudaStream_t stream, const AdamWRates& rates, const UpdateScalars& scalars,
                   absl::Span<const UpdateSegment> segments, const NumbersOfUpdate& numbers);

// A speculative update's correction, in f32: the gradient's place has the first moment of version
// s + 1, which tells the gradient and may be the first moment's output.
absl::Status AdamWFixUp(cudaStream_t stream, const AdamWRates& rates, const UpdateScalars& scalars,
                        absl::Span<const UpdateSegment> segments, const NumbersOfUpdate& numbers);

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_ADAMW_H_
