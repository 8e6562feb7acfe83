// Rotary positions on CUDA devices: what kernels/rope.h computes. T is float, BFloat16 or Float16;
// pointers are to device memory; work is queued on the stream.
#ifndef STRATA_KERNELS_CUDA_ROPE_H_
#define STRATA_KERNELS_CUDA_ROPE_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"

namespace strata::kernels::cuda {

struct RopeShape {
  int64_t rows = 0;      // N
  int64_t sequence = 0;  // T
  int64_t heads = 0, kv_heads = 0, head_size = 0;
  int64_t start = 0;   // row n stands at position start + n % T, which must lie in the table
  int64_t rotary = 0;  // the first elements of a head, which turn; 0: all
  // Where not null, *start_at takes start's place, as the device finds it when the kernel runs;
  // rows at positions from table_rows on then stay what they are.
  const double* start_at = nullptr;
  int64_t table_rows = 0;

  int64_t width() const { return rotary == 0 ? head_size : rotary; }  // R
};

// Turns the query and key heads of qkv[N, (H + 2K) * D] in place; values stay. `inverse` turns
// back, which is also the gradient. table[positions, R]: the cosines of a position's angles, then
// their sines (BuildRopeTable of kernels/rope.h). `positions` [N]: where each row stands instead,
// in the table; null: as the shape says.
template <typename T>
absl::Status RopeApply(cudaStream_t stream, const RopeShape& shape, const float* table,
                       const int32_t* positions, bool inverse, T* qkv);

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_ROPE_H_
