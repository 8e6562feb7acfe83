// What the end of a step needs on CUDA devices: squares of gradients, and the step's last word
// (ops/step.h). Pointers are to what the device reaches, scalars' too; work is queued on the
// stream, and the host need not wait for it before it queues what reads the scalars.
#ifndef STRATA_KERNELS_CUDA_STEP_H_
#define STRATA_KERNELS_CUDA_STEP_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"

namespace strata::kernels::cuda {

// Of any count; one for all calls that follow each other on a stream.
inline constexpr int64_t kSumSquaresWorkspaceBytes = 1024 * sizeof(double);

// *out = Σ x² in f64: not finite exactly where one of x is not. One pass by a number of blocks that
// depends on the count alone, one over these: the same bits in every run and on every device. T:
// float, BFloat16, Float16.
template <typename T>
absl::Status SumSquares(cudaStream_t stream, int64_t count, const T* x, double* out,
                        void* workspace);

// As ops::FinishStep has it.
struct FinishStepShape {
  int64_t rows = 0, sets = 0;
  int64_t data = 1;        // ranks; divides rows
  int64_t together = 1;    // divides data
  int64_t norm_ranks = 1;  // divides rows
  double clip = 0;         // 0: no clipping
};

// Places in the scalar block.
struct FinishStepScalars {
  const double* inverse_tokens = nullptr;
  const double* loss_scale = nullptr;  // null: losses are not scaled
  double* loss = nullptr;
  // Not written with 0 sets.
  double *gradient_norm = nullptr, *clip_factor = nullptr, *apply = nullptr, *clipped = nullptr;
};

// losses[rows]; norms[norm_ranks, sets, rows / norm_ranks], not read with 0 sets. Bit by bit what
// the CPU makes of the same numbers.
absl::Status FinishStep(cudaStream_t stream, const FinishStepShape& shape, const double* losses,
                        const double* norms, const FinishStepScalars& scalars);

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_STEP_H_
