// A team of lanes per head: as few of a warp's as take the head by packets at once, where the
// warp's suffice. Backward each of a fixed number of blocks takes every so-manieth head, and each
// team keeps its share of the weights' gradients in shared memory.
#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/common.cuh"
#include "kernels/cuda/headnorm.h"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kBackwardBlocks = 256;

int64_t BackwardBlocks(int64_t rows) { return std::min(rows, kBackwardBlocks); }

struct Sizes {
  unsigned taken;        // heads of all rows that are taken: N * per_row
  unsigned per_row;      // heads of a row that are: with values where these are copied
  unsigned heads;        // query heads, which come first
  unsigned norms;        // query and key heads
  int head_size, width;  // of a row
  int lanes;             // of a team
  float offset;          // 1 where 1 + w stands for w
};

// Where a team's head lies.
struct Head {
  int64_t at;     // its first element
  int64_t norm;   // its rstd
  bool is_query;  // else a key
  bool is_value;
};
__device__ __forceinline__ Head HeadOf(const Sizes& s, unsigned index) {
  const unsigned row = index / s.per_row, head = index % s.per_row;
  return {static_cast<int64_t>(row) * s.width + static_cast<int64_t>(head) * s.head_size,
          static_cast<int64_t>(row) * s.norms + head, head < s.heads, head >= s.norms};
}

// The same on every lane of a team; all lanes of the warp come here.
__device__ __forceinline__ float OverTeam(int lanes, float value) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    const unsigned mask = Planted(Mistake::kNarrowMask) ? 0xffffu : ~0u;
    value += __shfl_xor_sync(mask, value, distance);
  }
  return value;
}

// Calls body(head) for all heads of this thread's team. Where there are no more, teams of the last
// warps come along, whose `mine` is false.
template <typename Body>
__device__ __forceinline__ void ForHeads(const Sizes& s, Body body) {
  const unsigned teams = kThreads / s.lanes, team = threadIdx.x / s.lanes;
  const unsigned of_warp = 32 / s.lanes, step = gridDim.x * teams;
  for (unsigned first = blockIdx.x * teams + team / of_warp * of_warp; first < s.taken;
       first += step) {
    const unsigned index = first + team % of_warp;
    const bool mine = index < s.taken || Planted(Mistake::kNoBound);
    body(HeadOf(s, index), mine);
  }
}

// `known`: rstd of a replay, else null.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    HeadNormForwardKernel(Sizes s, float epsilon, const T* qkv, const T* wq, const T* wk,
                          const float* known, T* out, float* rstd) {
  const int lane = threadIdx.x % s.lanes, step = s.lanes * N;
  ForHeads(s, [&](Head head, bool mine) {
    const int end = mine ? s.head_size : 0;
    float scale = 1;
    if (known == nullptr) {
      float squares = 0;
      for (int c = lane * N; c < end; c += step) {
        float v[N];
        Load(qkv + head.at + c, v);
#pragma unroll
        for (int i = 0; i < N; ++i) squares += v[i] * v[i];
      }
      const float mean = OverTeam(s.lanes, squares) / static_cast<float>(s.head_size);
      scale = 1.f / sqrtf(mean + epsilon);
      if (mine && !head.is_value && lane == 0) rstd[head.norm] = scale;
    } else if (mine && !head.is_value) {
      scale = known[head.norm];
    }
    const T* w = head.is_query ? wq : wk;
    for (int c = lane * N; c < end; c += step) {
      float v[N], weight[N];
      Load(qkv + head.at + c, v);
      if (!head.is_value) {
        Load(w + c, weight);
#pragma unroll
        for (int i = 0; i < N; ++i) v[i] = v[i] * scale * (weight[i] + s.offset);
      }
      Store(out + head.at + c, v);
    }
  });
}

// partials[blocks, 2, D], of dwq and dwk, unless it is null.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    HeadNormBackwardKernel(Sizes s, const T* dout, const T* qkv, const T* wq, const T* wk,
                           const float* rstd, T* dqkv, float* partials) {
  extern __shared__ __align__(16) float sums[];  // [teams, 2, D], where there are partials
  const int lane = threadIdx.x % s.lanes, step = s.lanes * N;
  float* mine_of = sums + threadIdx.x / s.lanes * 2 * s.head_size;
  if (partials != nullptr) {  // a thread has the same columns in all loops
    const float zeros[N] = {};
    for (int c = lane * N; c < s.head_size; c += step) {
      Store(mine_of + c, zeros);
      Store(mine_of + s.head_size + c, zeros);
    }
  }
  ForHeads(s, [&](Head head, bool mine) {
    const int end = mine ? s.head_size : 0;
    const T* w = head.is_query ? wq : wk;
    float products = 0;
    for (int c = lane * N; !head.is_value && c < end; c += step) {
      float d[N], v[N], weight[N];
      Load(dout + head.at + c, d);
      Load(qkv + head.at + c, v);
      Load(w + c, weight);
#pragma unroll
      for (int i = 0; i < N; ++i) products += d[i] * (weight[i] + s.offset) * v[i];
    }
    const float mean = OverTeam(s.lanes, products) / static_cast<float>(s.head_size);
    const float r = mine && !head.is_value ? rstd[head.norm] : 0;
    const float pull = r * r * mean;
    float* of = mine_of + (head.is_query ? 0 : s.head_size);
    for (int c = lane * N; c < end; c += step) {
      float d[N], v[N], weight[N];
      Load(dout + head.at + c, d);
      if (!head.is_value) {
        Load(qkv + head.at + c, v);
        Load(w + c, weight);
        if (partials != nullptr) {
          float total[N];
          Load(of + c, total);
#pragma unroll
          for (int i = 0; i < N; ++i) total[i] += d[i] * v[i] * r;
          Store(of + c, total);
        }
#pragma unroll
        for (int i = 0; i < N; ++i) d[i] = r * (d[i] * (weight[i] + s.offset) - v[i] * pull);
      }
      Store(dqkv + head.at + c, d);
    }
  });
  if (partials == nullptr) return;
  if (!Planted(Mistake::kNoBarrierBeforeRead)) __syncthreads();
  const int columns = 2 * s.head_size, teams = kThreads / s.lanes;
  for (int c = threadIdx.x; c < columns; c += kThreads) {
    float total = 0;
    for (int team = 0; team < teams; ++team) total += sums[team * columns + c];
    partials[static_cast<int64_t>(blockIdx.x) * columns + c] = total;
  }
}

absl::Status Check(const HeadNormShape& s) {
  constexpr int64_t kMost = int64_t{1} << 30;  // heads of all rows, elements of one
  if (s.rows < 0 || s.heads < 0 || s.kv_heads < 0 || s.heads > kMost || s.kv_heads > kMost ||
      s.norms() < 1 || s.head_size < 1 || s.rows > kMost / (s.heads + 2 * s.kv_heads) ||
      s.head_size > kMost / (s.heads + 2 * s.kv_heads)) {
    return absl::InvalidArgumentError(absl::StrCat("head norm of ", s.rows, " rows of ", s.heads,
                                                   " + 2 * ", s.kv_heads, " heads of ",
                                                   s.head_size));
  }
  return absl::OkStatus();
}

Sizes SizesOf(const HeadNormShape& s, bool values, int64_t packets) {
  int lanes = 1;
  while (lanes < 32 && lanes < packets) lanes *= 2;
  const int64_t per_row = s.norms() + (values ? s.kv_heads : 0);
  return {.taken = static_cast<unsigned>(s.rows * per_row),
          .per_row = static_cast<unsigned>(per_row),
          .heads = static_cast<unsigned>(s.heads),
          .norms = static_cast<unsigned>(s.norms()),
          .head_size = static_cast<int>(s.head_size),
          .width = static_cast<int>(s.width()),
          .lanes = lanes,
          .offset = s.plus_one ? 1.f : 0.f};
}

template <typename T>
absl::Status Forward(cudaStream_t stream, const HeadNormShape& shape, float epsilon, const T* qkv,
                     const T* wq, const T* wk, const float* known, T* out, float* rstd) {
  RETURN_IF_ERROR(Check(shape));
  if (shape.rows == 0) return absl::OkStatus();
  const bool by_packets = ByPackets<T>(shape.head_size, qkv, wq, wk, out);
  const Sizes sizes =
      SizesOf(shape, out != qkv, by_packets ? shape.head_size / kPacket<T> : shape.head_size);
  return Launch("head norm",
                by_packets ? &HeadNormForwardKernel<T, kPacket<T>> : &HeadNormForwardKernel<T, 1>,
                BlocksFor(sizes.taken, kThreads / sizes.lanes), kThreads, 0, stream, sizes, epsilon,
                qkv, wq, wk, known, out, rstd);
}

}  // namespace

template <typename T>
absl::Status HeadNormForward(cudaStream_t stream, const HeadNormShape& shape, float epsilon,
                             const T* qkv, const T* wq, const T* wk, T* out, float* rstd) {
  return Forward<T>(stream, shape, epsilon, qkv, wq, wk, nullptr, out, rstd);
}

template <typename T>
absl::Status HeadNormReplay(cudaStream_t stream, const HeadNormShape& shape, const T* qkv,
                            const T* wq, const T* wk, const float* rstd, T* out) {
  return Forward<T>(stream, shape, 0, qkv, wq, wk, rstd, out, nullptr);
}

int64_t HeadNormBackwardWorkspaceBytes(const HeadNormShape& shape) {
  return BackwardBlocks(shape.rows) * 2 * shape.head_size * static_cast<int64_t>(sizeof(float));
}

template <typename T>
absl::Status HeadNormBackward(cudaStream_t stream, const HeadNormShape& shape, const T* dout,
                              const T* qkv, const T* wq, const T* wk, const float* rstd, T* dqkv,
                              float* dwq, float* dwk, float* workspace) {
  RETURN_IF_ERROR(Check(shape));
  if (shape.rows == 0) return absl::OkStatus();
  const int64_t size = shape.head_size;
  float* partials = dwq == nullptr ? nullptr : workspace;
  if (partials != nullptr && size > kMostHeadNormSize) {
    return absl::InvalidArgumentError(absl::StrCat("gradients of a head norm's weights of ", size,
                                                   " elements: at most ", kMostHeadNormSize));
  }
  const bool by_packets = ByPackets<T>(size, dout, qkv, wq, wk, dqkv);
  const Sizes sizes = SizesOf(shape, dout != dqkv, by_packets ? size / kPacket<T> : size);
  const int teams = kThreads / sizes.lanes;
  const int64_t blocks =
      std::min<int64_t>(BlocksFor(sizes.taken, teams), BackwardBlocks(shape.rows));
  const size_t shared = partials == nullptr ? 0 : teams * 2 * size * sizeof(float);
  RETURN_IF_ERROR(
      Launch("head norm's gradient",
             by_packets ? &HeadNormBackwardKernel<T, kPacket<T>> : &HeadNormBackwardKernel<T, 1>,
             static_cast<unsigned>(blocks), kThreads, shared, stream, sizes, dout, qkv, wq, wk,
             rstd, dqkv, partials));
  if (partials == nullptr) return absl::OkStatus();
  return AddPartialSums(stream, blocks, size, partials, dwq, dwk);
}

#define STRATA_INSTANTIATE(T)                                                                     \
  template absl::Status HeadNormForward<T>(cudaStream_t, const HeadNormShape&, float, const T*,   \
                                           const T*, const T*, T*, float*);                       \
  template absl::Status HeadNormReplay<T>(cudaStream_t, const HeadNormShape&, const T*, const T*, \
                                          const T*, const float*, T*);                            \
  template absl::Status HeadNormBackward<T>(cudaStream_t, const HeadNormShape&, const T*,         \
                                            const T*, const T*, const T*, const float*, T*,       \
                                            float*, float*, float*)
STRATA_INSTANTIATE(float);
STRATA_INSTANTIATE(BFloat16);
STRATA_INSTANTIATE(Float16);
#undef STRATA_INSTANTIATE

}  // namespace strata::kernels::cuda
