// Kernels that take elements one by one: flat arrays, and the columns of rows.
#ifndef STRATA_KERNELS_CUDA_ELEMENTS_CUH_
#define STRATA_KERNELS_CUDA_ELEMENTS_CUH_

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/common.cuh"

namespace strata::kernels::cuda {

// --- Flat arrays.

// How many elements are taken at once.
template <int N>
struct Elements {};

// Calls body(Elements<N>, the first of these) for all elements of this thread; `wide`:
// by packets of T, and one by one what is left.
template <typename T, typename Body>
__device__ __forceinline__ void ForElements(int64_t count, bool wide, Body body) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  constexpr int kEach = kPacket<T>;
  const int64_t packets = wide ? count / kEach : 0;
  for (int64_t packet = thread; packet < packets; packet += threads) {
    body(Elements<kEach>(), packet * kEach);
  }
  const int64_t end = count + (Planted(Mistake::kNoBound) ? 1 : 0);
  for (int64_t at = packets * kEach + thread; at < end; at += threads) {
    body(Elements<1>(), at);
  }
}

// Blocks of `threads` for them.
template <typename T>
unsigned BlocksForElements(int64_t count, bool wide, int threads) {
  const int64_t each = threads * (wide ? kPacket<T> : 1);
  return static_cast<unsigned>(std::min<int64_t>((count + each - 1) / each, int64_t{1} << 20));
}

// Whether a sum of few enough such values is the same in every order, as no addition rounds:
// multiples of 2^-28 up to 2^10.
constexpr int64_t kMostInAnyOrder = int64_t{1} << 14;
__device__ __forceinline__ bool InAnyOrder(float value) {
  const float scaled = value * 0x1p28f;
  return fabsf(value) <= 0x1p10f && rintf(scaled) == scaled;
}
// So far: with those it stays below 2^25, within an f64's 53 bits.
__device__ __forceinline__ bool InAnyOrder(double sum) {
  const double scaled = sum * 0x1p28;
  return fabs(sum) <= 0x1p24 && rint(scaled) == scaled;
}

// *sum += value(0), value(1) and so on, by one block: the bits of a sum one by one. Losses are
// differences of larger numbers, hence such that any order gives these bits, in a fraction of the
// time; other values are read again by tiles, which one thread adds.
template <int kThreads, typename Value>
__device__ __forceinline__ void AddInOrder(int64_t count, Value value, double* sum) {
  __shared__ double partial[kThreads / 32];
  __shared__ float tile[kThreads];
  const double before = *sum;
  const int64_t end = count + (Planted(Mistake::kNoBound) ? kThreads : 0);
  double mine = 0;
  bool in_any_order = count <= kMostInAnyOrder && InAnyOrder(before);
  if (in_any_order) {
#pragma unroll 8
    for (int64_t at = threadIdx.x; at < end; at += kThreads) {
      const float one = value(at);
      in_any_order &= InAnyOrder(one);
      mine += one;
    }
  }
  if (__syncthreads_and(in_any_order)) {
    const double total = before + OverBlock<kThreads>(mine, partial, Sum());
    if (threadIdx.x == 0) *sum = total;
    return;
  }
  double total = before;
  for (int64_t begin = 0; begin < count; begin += kThreads) {
    const int64_t at = begin + threadIdx.x;
    if (at < end) tile[threadIdx.x] = value(at);
    if (!Planted(Mistake::kNoBarrierBeforeRead)) __syncthreads();
    if (threadIdx.x == 0) {
      const int here = static_cast<int>(count - begin < kThreads ? count - begin : kThreads);
#pragma unroll 8
      for (int i = 0; i < here; ++i) total += tile[i];
    }
    if (!Planted(Mistake::kNoBarrierBeforeReuse)) __syncthreads();
  }
  if (threadIdx.x == 0) *sum = total;
}

// --- Rows: a thread takes the same columns of some rows; a block several rows where they are
// narrow.

struct RowGrid {
  dim3 grid, threads;
};

// For `packets` per row, and what the grid's z is to count.
inline RowGrid GridOfRows(int64_t rows, int64_t packets, int64_t depth = 1) {
  constexpr unsigned kThreads = 256;
  unsigned across = 1;
  while (across < kThreads && across < packets) across *= 2;
  const unsigned down = kThreads / across;
  return {dim3(BlocksFor(packets, static_cast<int>(across)), RowsOfGrid((rows + down - 1) / down),
               RowsOfGrid(depth)),
          dim3(across, down)};
}

// Calls body(row, the first column of N) for all of this thread.
template <int N, typename Body>
__device__ __forceinline__ void ForRows(int64_t rows, int64_t columns, Body body) {
  const int64_t c = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  if (c >= columns && !Planted(Mistake::kNoBound)) return;
  const int64_t step = static_cast<int64_t>(gridDim.y) * blockDim.y;
  for (int64_t row = static_cast<int64_t>(blockIdx.y) * blockDim.y + threadIdx.y; row < rows;
       row += step) {
    body(row, c);
  }
}

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_ELEMENTS_CUH_
