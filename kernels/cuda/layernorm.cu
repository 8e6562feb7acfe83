// As rmsnorm.cu: a team per row forward; backward the teams of a fixed number of blocks take every
// so-manieth row and keep their shares of the gradients of w and b in registers.
#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/layernorm.h"
#include "kernels/cuda/teams.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kBackwardBlocks = 256;

int64_t BackwardBlocks(int64_t rows) { return std::min(rows, kBackwardBlocks); }

// Forward and replay give the same bits.
__device__ __forceinline__ float Normed(float x, float mean, float rstd, float w, float b) {
  return fmaf((x - mean) * rstd, w, b);
}

template <typename T, int N, bool kAdd>
__global__ void __launch_bounds__(kMostLanes)
    LayerNormForwardKernel(int rows, int channels, float epsilon, const T* x, const T* branch,
                           const T* w, const T* b, T* sum, T* y, float* statistics) {
  __shared__ float partial[kMostWarps];
  const int row = RowOfTeam();
  if (row >= rows) return;  // with its team
  const int64_t base = static_cast<int64_t>(row) * channels;
  const int end = channels + (Planted(Mistake::kNoBound) ? N : 0);
  Row<T, N> values(x + base, end);
  if constexpr (kAdd) values.Add(Row<T, N>(branch + base, end), end, sum + base);
  const float count = static_cast<float>(channels);
  float total[1] = {};
  ForLane<N>(end, [&](int i, int c) {
    float v[N];
    values.Get(i, c, v);
#pragma unroll
    for (int k = 0; k < N; ++k) total[0] += v[k];
  });
  SumOverTeam(total, partial);
  const float mean = total[0] / count;
  float squares[1] = {};
  ForLane<N>(channels, [&](int i, int c) {
    float v[N];
    values.Get(i, c, v);
#pragma unroll
    for (int k = 0; k < N; ++k) squares[0] += (v[k] - mean) * (v[k] - mean);
  });
  SumOverTeam(squares, partial);
  const float rstd = 1.f / sqrtf(squares[0] / count + epsilon);
  if (threadIdx.x == 0) {
    statistics[2 * row] = mean;
    statistics[2 * row + 1] = rstd;
  }
  ForLane<N>(channels, [&](int i, int c) {
    float v[N], weight[N], bias[N];
    values.Get(i, c, v);
    Load(w + c, weight);
    Load(b + c, bias);
#pragma unroll
    for (int k = 0; k < N; ++k) v[k] = Normed(v[k], mean, rstd, weight[k], bias[k]);
    Store(y + base + c, v);
  });
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    LayerNormReplayKernel(int64_t rows, int64_t channels, const T* x, const T* w, const T* b,
                          const float* statistics, T* y) {
  ForRows<N>(rows, channels, [&](int64_t row, int64_t c) {
    float v[N], weight[N], bias[N];
    Load(x + row * channels + c, v);
    Load(w + c, weight);
    Load(b + c, bias);
    const float mean = statistics[2 * row], rstd = statistics[2 * row + 1];
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = Normed(v[i], mean, rstd, weight[i], bias[i]);
    Store(y + row * channels + c, v);
  });
}

// partials[blocks, 2, C], of dw and of db, unless it is null.
template <typename T, int N>
__global__ void __launch_bounds__(kMostLanes)
    LayerNormBackwardKernel(int rows, int channels, const T* dy, const T* x, const T* w,
                            const float* statistics, bool accumulate, T* dx, float* partials) {
  extern __shared__ __align__(16) float sums[];  // [teams, 2, C], where there are partials
  __shared__ float partial[2 * kMostWarps];
  float* const of_team = partials == nullptr ? nullptr : sums + threadIdx.y * 2 * channels;
  LaneSums<N> dw(of_team, channels);
  LaneSums<N> db(of_team == nullptr ? nullptr : of_team + channels, channels);
  const float count = static_cast<float>(channels);
  const int end = channels + (Planted(Mistake::kNoBound) ? N : 0);
  const Row<T, N> weights(w, end);
  for (int row = RowOfTeam(); row < rows; row += gridDim.x * blockDim.y) {
    const int64_t base = static_cast<int64_t>(row) * channels;
    const Row<T, N> gradients(dy + base, end), values(x + base, end);
    const Row<T, N> before(dx + base, accumulate ? end : 0);
    const float mean = statistics[2 * row], rstd = statistics[2 * row + 1];
    float totals[2] = {};  // of dy * w, of that times the normed x
    ForLane<N>(end, [&](int i, int c) {
      float d[N], v[N], weight[N];
      gradients.Get(i, c, d);
      values.Get(i, c, v);
      weights.Get(i, c, weight);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        v[k] = (v[k] - mean) * rstd;
        totals[0] += d[k] * weight[k];
        totals[1] += d[k] * weight[k] * v[k];
        v[k] *= d[k];
      }
      if (partials == nullptr) return;
      dw.Add(i, c, v);
      db.Add(i, c, d);
    });
    SumOverTeam(totals, partial);
    const float shift = totals[0] / count, pull = totals[1] / count;
    ForLane<N>(channels, [&](int i, int c) {
      float d[N], v[N], weight[N];
      gradients.Get(i, c, d);
      values.Get(i, c, v);
      weights.Get(i, c, weight);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        d[k] = rstd * (d[k] * weight[k] - shift - (v[k] - mean) * rstd * pull);
      }
      if (accumulate) {
        before.Get(i, c, v);
#pragma unroll
        for (int k = 0; k < N; ++k) d[k] += v[k];
      }
      Store(dx + base + c, d);
    });
  }
  if (partials == nullptr) return;
  dw.Leave(channels);
  db.Leave(channels);
  JoinTeams(sums, 2 * channels, partials + static_cast<int64_t>(blockIdx.x) * 2 * channels);
}

absl::Status Check(const LayerNormShape& shape) {
  constexpr int64_t kMost = int64_t{1} << 30;
  if (shape.rows < 0 || shape.rows > kMost || shape.channels < 1 || shape.channels > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("layer norm of ", shape.rows, " rows of ", shape.channels, " channels"));
  }
  return absl::OkStatus();
}

template <typename T, bool kAdd>
absl::Status Forward(cudaStream_t stream, const LayerNormShape& shape, float epsilon, const T* x,
                     const T* branch, const T* w, const T* b, T* sum, T* y, float* statistics) {
  if (const absl::Status status = Check(shape); !status.ok() || shape.rows == 0) return status;
  const bool by_packets = ByPackets<T>(shape.channels, x, branch, w, b, sum, y);
  const dim3 teams = TeamsFor(by_packets ? shape.channels / kPacket<T> : shape.channels);
  return Launch("layer norm",
                by_packets ? &LayerNormForwardKernel<T, kPacket<T>, kAdd>
                           : &LayerNormForwardKernel<T, 1, kAdd>,
                BlocksFor(shape.rows, static_cast<int>(teams.y)), teams, 0, stream,
                static_cast<int>(shape.rows), static_cast<int>(shape.channels), epsilon, x, branch,
                w, b, sum, y, statistics);
}

}  // namespace

template <typename T>
absl::Status LayerNormForward(cudaStream_t stream, const LayerNormShape& shape, float epsilon,
                              const T* x, const T* w, const T* b, T* y, float* statistics) {
  return Forward<T, false>(stream, shape, epsilon, x, nullptr, w, b, nullptr, y, statistics);
}

template <typename T>
absl::Status AddLayerNormForward(cudaStream_t stream, const LayerNormShape& shape, float epsilon,
                                 const T* x, const T* branch, const T* w, const T* b, T* sum, T* y,
                                 float* statistics) {
  return Forward<T, true>(stream, shape, epsilon, x, branch, w, b, sum, y, statistics);
}

template <typename T>
absl::Status LayerNormReplay(cudaStream_t stream, const LayerNormShape& shape, const T* x,
                             const T* w, const T* b, const float* statistics, T* y) {
  if (const absl::Status status = Check(shape); !status.ok() || shape.rows == 0) return status;
  const bool by_packets = ByPackets<T>(shape.channels, x, w, b, y);
  const auto [grid, threads] =
      GridOfRows(shape.rows, by_packets ? shape.channels / kPacket<T> : shape.channels);
  return Launch("layer norm again",
                by_packets ? &LayerNormReplayKernel<T, kPacket<T>> : &LayerNormReplayKernel<T, 1>,
                grid, threads, 0, stream, shape.rows, shape.channels, x, w, b, statistics, y);
}

int64_t LayerNormBackwardWorkspaceBytes(const LayerNormShape& shape) {
  return BackwardBlocks(shape.rows) * 2 * shape.channels * static_cast<int64_t>(sizeof(float));
}

template <typename T>
absl::Status LayerNormBackward(cudaStream_t stream, const LayerNormShape& shape, const T* dy,
                               const T* x, const T* w, const float* statistics, bool accumulate_dx,
                               T* dx, float* dw, float* db, float* workspace) {
  if (const absl::Status status = Check(shape); !status.ok() || shape.rows == 0) return status;
  const int channels = static_cast<int>(shape.channels), rows = static_cast<int>(shape.rows);
  float* partials = dw == nullptr ? nullptr : workspace;
  if (partials != nullptr && channels > kMostLayerNormChannels) {
    return absl::InvalidArgumentError(absl::StrCat("gradients of a layer norm's weights of ",
                                                   channels, " channels: at most ",
                                                   kMostLayerNormChannels));
  }
  const bool by_packets = ByPackets<T>(channels, dy, x, w, dx);
  const auto kernel =
      by_packets ? &LayerNormBackwardKernel<T, kPacket<T>> : &LayerNormBackwardKernel<T, 1>;
  const dim3 teams = TeamsFor(by_packets ? channels / kPacket<T> : channels);
  const size_t shared = partials == nullptr ? 0 : teams.y * 2 * channels * sizeof(float);
  const int64_t blocks = BackwardBlocks(BlocksFor(rows, static_cast<int>(teams.y)));
  RETURN_IF_ERROR(AllowShared("layer norm's gradient", kernel, shared));
  RETURN_IF_ERROR(Launch("layer norm's gradient", kernel, static_cast<unsigned>(blocks), teams,
                         shared, stream, rows, channels, dy, x, w, statistics, accumulate_dx, dx,
                         partials));
  if (partials == nullptr) return absl::OkStatus();
  return AddPartialSums(stream, blocks, channels, partials, dw, db);
}

#define STRATA_INSTANTIATE(T)                                                                     \
  template absl::Status LayerNormForward<T>(cudaStream_t, const LayerNormShape&, float, const T*, \
                                            const T*, const T*, T*, float*);                      \
  template absl::Status AddLayerNormForward<T>(cudaStream_t, const LayerNormShape&, float,        \
                                               const T*, const T*, const T*, const T*, T*, T*,    \
                                               float*);                                           \
  template absl::Status LayerNormReplay<T>(cudaStream_t, const LayerNormShape&, const T*,         \
                                           const T*, const T*, const float*, T*);                 \
  template absl::Status LayerNormBackward<T>(cudaStream_t, const LayerNormShape&, const T*,       \
                                             const T*, const T*, const float*, bool, T*, float*,  \
                                             float*, float*)
STRATA_INSTANTIATE(float);
STRATA_INSTANTIATE(BFloat16);
STRATA_INSTANTIATE(Float16);
#undef STRATA_INSTANTIATE

}  // namespace strata::kernels::cuda
