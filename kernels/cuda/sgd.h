// SGD with momentum on CUDA devices (kernels/sgd.h). Pointers are to what the device reaches; work
// is queued on the stream.
#ifndef STRATA_KERNELS_CUDA_SGD_H_
#define STRATA_KERNELS_CUDA_SGD_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/cuda/update.h"

namespace strata::kernels::cuda {

struct SgdRates {
  double momentum = 0.9;
  double weight_decay = 0;  // added to the gradient; of segments that have it
};

// One update of the segments, in numbers of any types. Each output may be its own input.
// `scalars.applied` is not read.
absl::Status Sgd(cudaStream_t stream, const SgdRates& rates, const UpdateScalars& scalars,
                 absl::Span<const UpdateSegment> segments, const NumbersOfUpdate& numbers);

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_SGD_H_
