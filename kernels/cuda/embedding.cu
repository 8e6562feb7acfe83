// Forward a thread per packet of a row. Backward a block per row of dy and part of its columns: the
// block of a token's first row adds all rows of that token, in ascending order, which it lists tile
// by tile, so that it reads several at once; the others leave.
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/embedding.h"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 16 * kThreads;  // tokens that are looked at between two barriers
constexpr int kWords = kTile / 32;    // a bit for each
constexpr int kAtOnce = 8;            // rows that a thread reads before it adds them

struct Sizes {
  int rows, channels, first, count;
  float scale;
};

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    EmbeddingForwardKernel(Sizes s, const int32_t* tokens, const T* table, T* y) {
  const int c = (blockIdx.y * kThreads + threadIdx.x) * N;
  if (c >= s.channels && !Planted(Mistake::kNoBound)) return;
  const int row = blockIdx.x;
  const int64_t entry = static_cast<int64_t>(tokens[row]) - s.first;
  float v[N] = {};
  if (entry >= 0 && entry < s.count) Load(table + entry * s.channels + c, v);
#pragma unroll
  for (int i = 0; i < N; ++i) v[i] *= s.scale;
  Store(y + static_cast<int64_t>(row) * s.channels + c, v);
}

// Whether a row before `row` has its token. The same on every thread.
__device__ bool ComesLater(const int32_t* tokens, int row, int token) {
  for (int begin = 0; begin < row; begin += kTile) {
    bool found = false;
#pragma unroll
    for (int i = 0; i < kTile / kThreads; ++i) {
      const int at = begin + i * kThreads + static_cast<int>(threadIdx.x);
      found |= at < row && tokens[at] == token;
    }
    if (__syncthreads_or(found)) return true;
  }
  return false;
}

// By one warp: begin + each place of `same` whose bit is set, in ascending order; how many.
__device__ int List(const unsigned (&same)[kWords], int begin, int (&rows)[kTile]) {
  constexpr int kOfLane = kWords / 32;
  const int lane = static_cast<int>(threadIdx.x);
  int count = 0;
#pragma unroll
  for (int i = 0; i < kOfLane; ++i) count += __popc(same[lane * kOfLane + i]);
  int end = count;  // of this lane's rows
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const int before = __shfl_up_sync(~0u, end, distance);
    if (lane >= distance) end += before;
  }
  int at = end - count;
  for (int word = lane * kOfLane; word < (lane + 1) * kOfLane; ++word) {
    for (unsigned left = same[word]; left != 0; left &= left - 1) {
      rows[at++] = begin + word * 32 + __ffs(static_cast<int>(left)) - 1;
    }
  }
  return __shfl_sync(~0u, end, 31);
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    EmbeddingBackwardKernel(Sizes s, const int32_t* tokens, const T* dy, float* dtable) {
  __shared__ unsigned same[kWords];  // a bit per row of a tile: whether it has the token
  __shared__ int rows[kTile], count;
  const int row = blockIdx.x, token = tokens[row], thread = static_cast<int>(threadIdx.x);
  const int64_t entry = static_cast<int64_t>(token) - s.first;
  if (entry < 0 || entry >= s.count || ComesLater(tokens, row, token)) return;  // the whole block
  const int c = (blockIdx.y * kThreads + thread) * N;
  const bool inside = c < s.channels || Planted(Mistake::kNoBound);
  float* out = dtable + entry * s.channels + c;
  float sum[N] = {};
  if (inside) Load(out, sum);
  for (int begin = row; begin < s.rows; begin += kTile) {
    unsigned any = 0;
#pragma unroll
    for (int i = 0; i < kTile / kThreads; ++i) {
      const int at = begin + i * kThreads + thread;
      const unsigned bits = __ballot_sync(~0u, at < s.rows && tokens[at] == token);
      if (thread % 32 == 0) same[(i * kThreads + thread) / 32] = bits;
      any |= bits;
    }
    // Nothing of a tile before is read any more.
    if (!Planted(Mistake::kNoBarrierBeforeReuse) && !__syncthreads_or(any != 0)) continue;
    if (thread < 32) {
      const int listed = List(same, begin, rows);
      if (thread == 0) count = listed;
    }
    if (!Planted(Mistake::kNoBarrierBeforeRead)) __syncthreads();
    const int last = inside ? count - 1 : -1;
    for (int first = 0; first <= last; first += kAtOnce) {
      float v[kAtOnce][N];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        const int64_t from = rows[min(first + k, last)];
        Load(dy + from * s.channels + c, v[k]);
      }
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        if (first + k > last) break;
#pragma unroll
        for (int i = 0; i < N; ++i) sum[i] += v[k][i] * s.scale;
      }
    }
  }
  if (inside) Store(out, sum);
}

absl::Status Check(const EmbeddingShape& s) {
  constexpr int64_t kMost = int64_t{1} << 30, kMostChannels = 65535 * kThreads;
  if (s.rows < 0 || s.rows > kMost || s.channels < 1 || s.channels > kMostChannels || s.first < 0 ||
      s.first > kMost || s.count < 0 || s.count > kMost) {
    return absl::InvalidArgumentError(absl::StrCat("embedding of ", s.rows, " tokens in ",
                                                   s.channels, " channels, from a table of ",
                                                   s.count, " from ", s.first, " on"));
  }
  return absl::OkStatus();
}

Sizes SizesOf(const EmbeddingShape& s) {
  return {static_cast<int>(s.rows), static_cast<int>(s.channels), static_cast<int>(s.first),
          static_cast<int>(s.count), s.scale};
}

template <typename T>
dim3 Grid(const EmbeddingShape& s, bool by_packets) {
  return {static_cast<unsigned>(s.rows),
          BlocksFor(s.channels, kThreads * (by_packets ? kPacket<T> : 1)), 1};
}

}  // namespace

template <typename T>
absl::Status EmbeddingForward(cudaStream_t stream, const EmbeddingShape& shape,
                              const int32_t* tokens, const T* table, T* y) {
  if (const absl::Status status = Check(shape); !status.ok() || shape.rows == 0) return status;
  const bool by_packets = ByPackets<T>(shape.channels, table, y);
  return Launch("embedding",
                by_packets ? &EmbeddingForwardKernel<T, kPacket<T>> : &EmbeddingForwardKernel<T, 1>,
                Grid<T>(shape, by_packets), kThreads, 0, stream, SizesOf(shape), tokens, table, y);
}

template <typename T>
absl::Status EmbeddingBackward(cudaStream_t stream, const EmbeddingShape& shape,
                               const int32_t* tokens, const T* dy, float* dtable) {
  if (const absl::Status status = Check(shape); !status.ok() || shape.rows == 0) return status;
  const bool by_packets = ByPackets<T>(shape.channels, dy, dtable);
  return Launch(
      "embedding's gradient",
      by_packets ? &EmbeddingBackwardKernel<T, kPacket<T>> : &EmbeddingBackwardKernel<T, 1>,
      Grid<T>(shape, by_packets), kThreads, 0, stream, SizesOf(shape), tokens, dy, dtable);
}

#define STRATA_INSTANTIATE(T)                                                                     \
  template absl::Status EmbeddingForward<T>(cudaStream_t, const EmbeddingShape&, const int32_t*,  \
                                            const T*, T*);                                        \
  template absl::Status EmbeddingBackward<T>(cudaStream_t, const EmbeddingShape&, const int32_t*, \
                                             const T*, float*)
STRATA_INSTANTIATE(float);
STRATA_INSTANTIATE(BFloat16);
STRATA_INSTANTIATE(Float16);
#undef STRATA_INSTANTIATE

}  // namespace strata::kernels::cuda
