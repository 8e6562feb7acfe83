// A team per row forward; backward the teams of a fixed number of blocks take every so-manieth row
// and keep their shares of the weights' gradient in registers. A lane owns the same columns in
// every row, so only the rows' sums are exchanged.
#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/rmsnorm.h"
#include "kernels/cuda/teams.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kBackwardBlocks = 256;

int64_t BackwardBlocks(int64_t rows) { return std::min(rows, kBackwardBlocks); }

__device__ __forceinline__ float Normed(float x, float rstd, float weight) {
  return x * rstd * weight;
}

template <typename T, int N, bool kAdd>
__global__ void __launch_bounds__(kMostLanes)
    RmsNormForwardKernel(int rows, int channels, float offset, float epsilon, const T* x,
                         const T* branch, const T* w, T* sum, T* y, float* rstd) {
  __shared__ float partial[kMostWarps];
  const int row = RowOfTeam();
  if (row >= rows) return;  // with its team
  const int64_t base = static_cast<int64_t>(row) * channels;
  const int end = channels + (Planted(Mistake::kNoBound) ? N : 0);
  Row<T, N> values(x + base, end);
  if constexpr (kAdd) values.Add(Row<T, N>(branch + base, end), end, sum + base);
  float squares[1] = {};
  ForLane<N>(end, [&](int i, int c) {
    float v[N];
    values.Get(i, c, v);
#pragma unroll
    for (int k = 0; k < N; ++k) squares[0] += v[k] * v[k];
  });
  SumOverTeam(squares, partial);
  const float scale = 1.f / sqrtf(squares[0] / static_cast<float>(channels) + epsilon);
  if (threadIdx.x == 0) rstd[row] = scale;
  ForLane<N>(channels, [&](int i, int c) {
    float v[N], weight[N];
    values.Get(i, c, v);
    Load(w + c, weight);
#pragma unroll
    for (int k = 0; k < N; ++k) v[k] = Normed(v[k], scale, weight[k] + offset);
    Store(y + base + c, v);
  });
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    RmsNormReplayKernel(int64_t rows, int64_t channels, float offset, const T* x, const T* w,
                        const float* rstd, T* y) {
  ForRows<N>(rows, channels, [&](int64_t row, int64_t c) {
    float v[N], weight[N];
    Load(x + row * channels + c, v);
    Load(w + c, weight);
    const float scale = rstd[row];
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = Normed(v[i], scale, weight[i] + offset);
    Store(y + row * channels + c, v);
  });
}

// partial_dw[blocks, C], unless it is null.
template <typename T, int N>
__global__ void __launch_bounds__(kMostLanes)
    RmsNormBackwardKernel(int rows, int channels, float offset, const T* dy, const T* x, const T* w,
                          const float* rstd, bool accumulate, T* dx, float* partial_dw) {
  extern __shared__ __align__(16) float sums[];  // [teams, C], where there is a partial_dw
  __shared__ float partial[kMostWarps];
  LaneSums<N> dw(partial_dw == nullptr ? nullptr : sums + threadIdx.y * channels, channels);
  const Row<T, N> weights(w, channels);
  for (int row = RowOfTeam(); row < rows; row += gridDim.x * blockDim.y) {
    const int64_t base = static_cast<int64_t>(row) * channels;
    const Row<T, N> gradients(dy + base, channels), values(x + base, channels);
    const Row<T, N> before(dx + base, accumulate ? channels : 0);
    const float r = rstd[row];
    float products[1] = {};
    ForLane<N>(channels, [&](int i, int c) {
      float d[N], v[N], weight[N];
      gradients.Get(i, c, d);
      values.Get(i, c, v);
      weights.Get(i, c, weight);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        products[0] += d[k] * (weight[k] + offset) * v[k];
        d[k] *= v[k] * r;
      }
      if (partial_dw != nullptr) dw.Add(i, c, d);
    });
    SumOverTeam(products, partial);
    const float pull = r * r * (products[0] / static_cast<float>(channels));
    ForLane<N>(channels, [&](int i, int c) {
      float d[N], v[N], weight[N];
      gradients.Get(i, c, d);
      values.Get(i, c, v);
      weights.Get(i, c, weight);
#pragma unroll
      for (int k = 0; k < N; ++k) d[k] = r * (d[k] * (weight[k] + offset) - v[k] * pull);
      if (accumulate) {
        before.Get(i, c, v);
#pragma unroll
        for (int k = 0; k < N; ++k) d[k] += v[k];
      }
      Store(dx + base + c, d);
    });
  }
  if (partial_dw == nullptr) return;
  dw.Leave(channels);
  JoinTeams(sums, channels, partial_dw + static_cast<int64_t>(blockIdx.x) * channels);
}

absl::Status Check(const RmsNormShape& shape) {
  constexpr int64_t kMost = int64_t{1} << 30;
  if (shape.rows < 0 || shape.rows > kMost || shape.channels < 1 || shape.channels > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("RMS norm of ", shape.rows, " rows of ", shape.channels, " channels"));
  }
  return absl::OkStatus();
}

template <typename T, bool kAdd>
absl::Status Forward(cudaStream_t stream, const RmsNormShape& shape, float epsilon, const T* x,
                     const T* branch, const T* w, T* sum, T* y, float* rstd) {
  if (const absl::Status status = Check(shape); !status.ok() || shape.rows == 0) return status;
  const bool by_packets = ByPackets<T>(shape.channels, x, branch, w, sum, y);
  const dim3 teams = TeamsFor(by_packets ? shape.channels / kPacket<T> : shape.channels);
  return Launch(
      "RMS norm",
      by_packets ? &RmsNormForwardKernel<T, kPacket<T>, kAdd> : &RmsNormForwardKernel<T, 1, kAdd>,
      BlocksFor(shape.rows, static_cast<int>(teams.y)), teams, 0, stream,
      static_cast<int>(shape.rows), static_cast<int>(shape.channels), shape.plus_one ? 1.f : 0.f,
      epsilon, x, branch, w, sum, y, rstd);
}

}  // namespace

template <typename T>
absl::Status RmsNormForward(cudaStream_t stream, const RmsNormShape& shape, float epsilon,
                            const T* x, const T* w, T* y, float* rstd) {
  return Forward<T, false>(stream, shape, epsilon, x, nullptr, w, nullptr, y, rstd);
}

template <typename T>
absl::Status AddRmsNormForward(cudaStream_t stream, const RmsNormShape& shape, float epsilon,
                               const T* x, const T* branch, const T* w, T* sum, T* y, float* rstd) {
  return Forward<T, true>(stream, shape, epsilon, x, branch, w, sum, y, rstd);
}

template <typename T>
absl::Status RmsNormReplay(cudaStream_t stream, const RmsNormShape& shape, const T* x, const T* w,
                           const float* rstd, T* y) {
  if (const absl::Status status = Check(shape); !status.ok() || shape.rows == 0) return status;
  const bool by_packets = ByPackets<T>(shape.channels, x, w, y);
  const auto [grid, threads] =
      GridOfRows(shape.rows, by_packets ? shape.channels / kPacket<T> : shape.channels);
  return Launch("RMS norm again",
                by_packets ? &RmsNormReplayKernel<T, kPacket<T>> : &RmsNormReplayKernel<T, 1>, grid,
                threads, 0, stream, shape.rows, shape.channels, shape.plus_one ? 1.f : 0.f, x, w,
                rstd, y);
}

int64_t RmsNormBackwardWorkspaceBytes(int64_t rows, int64_t channels) {
  return BackwardBlocks(rows) * channels * static_cast<int64_t>(sizeof(float));
}

template <typename T>
absl::Status RmsNormBackward(cudaStream_t stream, const RmsNormShape& shape, const T* dy,
                             const T* x, const T* w, const float* rstd, bool accumulate_dx, T* dx,
                             float* dw, float* workspace) {
  if (const absl::Status status = Check(shape); !status.ok() || shape.rows == 0) return status;
  const int channels = static_cast<int>(shape.channels), rows = static_cast<int>(shape.rows);
  if (dw != nullptr && channels > kMostRmsNormChannels) {
    return absl::InvalidArgumentError(absl::StrCat("gradient of an RMS norm's weights of ",
                                                   channels, " channels: at most ",
                                                   kMostRmsNormChannels));
  }
  const bool by_packets = ByPackets<T>(channels, dy, x, w, dx);
  const auto kernel =
      by_packets ? &RmsNormBackwardKernel<T, kPacket<T>> : &RmsNormBackwardKernel<T, 1>;
  const dim3 teams = TeamsFor(by_packets ? channels / kPacket<T> : channels);
  const size_t shared = dw == nullptr ? 0 : teams.y * channels * sizeof(float);
  const int64_t blocks = BackwardBlocks(BlocksFor(rows, static_cast<int>(teams.y)));
  float* partial_dw = dw == nullptr ? nullptr : workspace;
  RETURN_IF_ERROR(AllowShared("RMS norm's gradient", kernel, shared));
  RETURN_IF_ERROR(Launch("RMS norm's gradient", kernel, static_cast<unsigned>(blocks), teams,
                         shared, stream, rows, channels, shape.plus_one ? 1.f : 0.f, dy, x, w, rstd,
                         accumulate_dx, dx, partial_dw));
  if (dw == nullptr) return absl::OkStatus();
  return AddPartialSums(stream, blocks, channels, workspace, dw);
}

#define STRATA_INSTANTIATE(T)                                                                     \
  template absl::Status RmsNormForward<T>(cudaStream_t, const RmsNormShape&, float, const T*,     \
                                          const T*, T*, float*);                                  \
  template absl::Status AddRmsNormForward<T>(cudaStream_t, const RmsNormShape&, float, const T*,  \
                                             const T*, const T*, T*, T*, float*);                 \
  template absl::Status RmsNormReplay<T>(cudaStream_t, const RmsNormShape&, const T*, const T*,   \
                                         const float*, T*);                                       \
  template absl::Status RmsNormBackward<T>(cudaStream_t, const RmsNormShape&, const T*, const T*, \
                                           const T*, const float*, bool, T*, float*, float*)
STRATA_INSTANTIATE(float);
STRATA_INSTANTIATE(BFloat16);
STRATA_INSTANTIATE(Float16);
#undef STRATA_INSTANTIATE

}  // namespace strata::kernels::cuda
