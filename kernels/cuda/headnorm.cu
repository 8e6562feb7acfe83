// A team of lanes per head: as few of a warp's as hold it in their registers, where the warp's
// suffice. Backward the teams of a fixed number of blocks take every so-manieth head and keep their
// shares of the weights' gradients in registers, too.
#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/headnorm.h"
#include "kernels/cuda/teams.cuh"

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
__device__ __forceinline__ float OverTeam(float value) {
  for (int distance = blockDim.x / 2; distance > 0; distance /= 2) {
    const unsigned mask = Planted(Mistake::kNarrowMask) ? 0xffffu : ~0u;
    value += __shfl_xor_sync(mask, value, distance);
  }
  return value;
}

// Calls body(head) for all heads of this thread's team. Where there are no more, teams of the last
// warps come along, whose `mine` is false.
template <typename Body>
__device__ __forceinline__ void ForHeads(const Sizes& s, Body body) {
  const unsigned teams = blockDim.y, team = threadIdx.y;
  const unsigned of_warp = 32 / blockDim.x, step = gridDim.x * teams;
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
  ForHeads(s, [&](Head head, bool mine) {
    const int end = mine ? s.head_size : 0;
    const Row<T, N> values(qkv + head.at, end);
    float scale = 1;
    if (known == nullptr) {
      float squares = 0;
      ForLane<N>(end, [&](int i, int c) {
        float v[N];
        values.Get(i, c, v);
#pragma unroll
        for (int k = 0; k < N; ++k) squares += v[k] * v[k];
      });
      const float mean = OverTeam(squares) / static_cast<float>(s.head_size);
      scale = 1.f / sqrtf(mean + epsilon);
      if (mine && !head.is_value && threadIdx.x == 0) rstd[head.norm] = scale;
    } else if (mine && !head.is_value) {
      scale = known[head.norm];
    }
    const T* w = head.is_query ? wq : wk;
    ForLane<N>(end, [&](int i, int c) {
      float v[N], weight[N];
      values.Get(i, c, v);
      if (!head.is_value) {
        Load(w + c, weight);
#pragma unroll
        for (int k = 0; k < N; ++k) v[k] = v[k] * scale * (weight[k] + s.offset);
      }
      Store(out + head.at + c, v);
    });
  });
}

// partials[blocks, 2, D], of dwq and dwk, unless it is null.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    HeadNormBackwardKernel(Sizes s, const T* dout, const T* qkv, const T* wq, const T* wk,
                           const float* rstd, T* dqkv, float* partials) {
  extern __shared__ __align__(16) float sums[];  // [teams, 2, D], where there are partials
  float* const of_team = partials == nullptr ? nullptr : sums + threadIdx.y * 2 * s.head_size;
  LaneSums<N> dwq(of_team, s.head_size);
  LaneSums<N> dwk(of_team == nullptr ? nullptr : of_team + s.head_size, s.head_size);
  ForHeads(s, [&](Head head, bool mine) {
    const int end = mine ? s.head_size : 0, normed = head.is_value ? 0 : end;
    const Row<T, N> gradients(dout + head.at, end), values(qkv + head.at, normed);
    const float r = normed > 0 ? rstd[head.norm] : 0;
    const T* w = head.is_query ? wq : wk;
    float products = 0;
    ForLane<N>(normed, [&](int i, int c) {
      float d[N], v[N], weight[N];
      gradients.Get(i, c, d);
      values.Get(i, c, v);
      Load(w + c, weight);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        products += d[k] * (weight[k] + s.offset) * v[k];
        d[k] *= v[k] * r;
      }
      if (partials == nullptr) return;
      if (head.is_query) {
        dwq.Add(i, c, d);
      } else {
        dwk.Add(i, c, d);
      }
    });
    const float pull = r * r * (OverTeam(products) / static_cast<float>(s.head_size));
    ForLane<N>(end, [&](int i, int c) {
      float d[N], v[N], weight[N];
      gradients.Get(i, c, d);
      if (!head.is_value) {
        values.Get(i, c, v);
        Load(w + c, weight);
#pragma unroll
        for (int k = 0; k < N; ++k) d[k] = r * (d[k] * (weight[k] + s.offset) - v[k] * pull);
      }
      Store(dqkv + head.at + c, d);
    });
  });
  if (partials == nullptr) return;
  dwq.Leave(s.head_size);
  dwk.Leave(s.head_size);
  JoinTeams(sums, 2 * s.head_size, partials + static_cast<int64_t>(blockIdx.x) * 2 * s.head_size);
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

// A block's threads: x are the lanes of a team, y the teams.
dim3 TeamsOf(int64_t packets) {
  unsigned lanes = 1;
  while (lanes < 32 && lanes * kHeld < packets) lanes *= 2;
  return dim3(lanes, kThreads / lanes);
}

Sizes SizesOf(const HeadNormShape& s, bool values) {
  const int64_t per_row = s.norms() + (values ? s.kv_heads : 0);
  return {.taken = static_cast<unsigned>(s.rows * per_row),
          .per_row = static_cast<unsigned>(per_row),
          .heads = static_cast<unsigned>(s.heads),
          .norms = static_cast<unsigned>(s.norms()),
          .head_size = static_cast<int>(s.head_size),
          .width = static_cast<int>(s.width()),
          .offset = s.plus_one ? 1.f : 0.f};
}

template <typename T>
absl::Status Forward(cudaStream_t stream, const HeadNormShape& shape, float epsilon, const T* qkv,
                     const T* wq, const T* wk, const float* known, T* out, float* rstd) {
  RETURN_IF_ERROR(Check(shape));
  if (shape.rows == 0) return absl::OkStatus();
  const bool by_packets = ByPackets<T>(shape.head_size, qkv, wq, wk, out);
  const Sizes sizes = SizesOf(shape, out != qkv);
  const dim3 teams = TeamsOf(by_packets ? shape.head_size / kPacket<T> : shape.head_size);
  return Launch("head norm",
                by_packets ? &HeadNormForwardKernel<T, kPacket<T>> : &HeadNormForwardKernel<T, 1>,
                BlocksFor(sizes.taken, static_cast<int>(teams.y)), teams, 0, stream, sizes, epsilon,
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
  const auto kernel =
      by_packets ? &HeadNormBackwardKernel<T, kPacket<T>> : &HeadNormBackwardKernel<T, 1>;
  const Sizes sizes = SizesOf(shape, dout != dqkv);
  const dim3 teams = TeamsOf(by_packets ? size / kPacket<T> : size);
  const int64_t blocks = std::min<int64_t>(BlocksFor(sizes.taken, static_cast<int>(teams.y)),
                                           BackwardBlocks(shape.rows));
  const size_t shared = partials == nullptr ? 0 : teams.y * 2 * size * sizeof(float);
  RETURN_IF_ERROR(AllowShared("head norm's gradient", kernel, shared));
  RETURN_IF_ERROR(Launch("head norm's gradient", kernel, static_cast<unsigned>(blocks), teams,
                         shared, stream, sizes, dout, qkv, wq, wk, rstd, dqkv, partials));
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
