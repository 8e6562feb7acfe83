// Learned positions on CUDA devices: what kernels/embedding.h computes of them. T is float,
// BFloat16 or Float16; pointers are to device memory; work is queued on the stream.
#ifndef STRATA_KERNELS_CUDA_POSITIONS_H_
#define STRATA_KERNELS_CUDA_POSITIONS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"

namespace strata::kernels::cuda {

struct PositionsShape {
  int64_t rows = 0;      // N
  int64_t sequence = 0;  // T
  int64_t channels = 0;  // C
  int64_t context = 0;   // rows of the table
  // Row n stands at position start + (first + n) % T.
  int64_t start = 0;
  int64_t first = 0;
  // Where not null, *start_at takes start's place, as the device finds it when the kernel runs.
  const double* start_at = nullptr;
};

// y[N, C] += table[position of n, C]. `positions` [N]: where each row stands instead; null: as the
// shape says. Rows at positions that the table does not have stay what they are.
template <typename T>
absl::Status AddPositions(cudaStream_t stream, const PositionsShape& shape, const T* table,
                          const int32_t* positions, T* y);

// dtable[position of n, C] += dy[n], in ascending n; rows at other positions are passed over. With
// `positions` as EmbeddingBackward, which compares all of them.
template <typename T>
absl::Status PositionsGradient(cudaStream_t stream, const PositionsShape& shape, const T* dy,
                               const int32_t* positions, float* dtable);

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_POSITIONS_H_
