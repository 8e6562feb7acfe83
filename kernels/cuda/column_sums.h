// Sums over rows on CUDA devices: of gradients towards what is added to every
// row or multiplied into it. T is float, BFloat16 or Float16; pointers are to
// device memory; work is queued on the stream.
#ifndef STRATA_KERNELS_CUDA_COLUMN_SUMS_H_
#define STRATA_KERNELS_CUDA_COLUMN_SUMS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"

namespace strata::kernels::cuda {

int64_t ColumnSumsWorkspaceBytes(int64_t rows, int64_t columns);

// sums[C] += those of values[N, C], over a fixed number of parts of the rows,
// then over these: the same bits in every run and on every device.
template <typename T>
absl::Status AddColumnSums(cudaStream_t stream, int64_t rows, int64_t columns, const T* values,
                           float* sums, float* workspace);

// sums[C] += those of partial[N, C]: few rows, which blocks have left. With
// more_sums[C] of partial[N, 2, C], of which they get the second C.
absl::Status AddPartialSums(cudaStream_t stream, int64_t rows, int64_t columns,
                            const float* partial, float* sums, float* more_sums = nullptr);

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_COLUMN_SUMS_H_
