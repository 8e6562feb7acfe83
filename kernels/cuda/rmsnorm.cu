// A block per row forward; backward each of a fixed number of blocks takes every so-manieth row and
// keeps its share of the weights' gradient in shared memory. A thread owns the same columns in
// every row, so only the rows' sums are exchanged.
#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/rmsnorm.h"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kBackwardBlocks = 256;

int64_t BackwardBlocks(int64_t rows) { return std::min(rows, kBackwardBlocks); }

__device__ __forceinline__ float Normed(float x, float rstd, float weight) {
  return x * rstd * weight;
}

template <typename T, int N, bool kAdd>
__global__ void __launch_bounds__(kThreads)
    RmsNormForwardKernel(int channels, float offset, float epsilon, const T* x, const T* branch,
                         const T* w, T* sum, T* y, float* rstd) {
  __shared__ float partial[kThreads / 32];
  const int64_t base = static_cast<int64_t>(blockIdx.x) * channels;
  const int end = channels + (Planted(Mistake::kNoBound) ? N : 0);
  float squares = 0;
  for (int c = threadIdx.x * N; c < end; c += kThreads * N) {
    float v[N];
    Load(x + base + c, v);
    if constexpr (kAdd) {
      float b[N];
      Load(branch + base + c, b);
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] = ToF32(FromF32<T>(v[i] + b[i]));
      Store(sum + base + c, v);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) squares += v[i] * v[i];
  }
  const float mean = OverBlock<kThreads>(squares, partial, Sum()) / static_cast<float>(channels);
  const float scale = 1.f / sqrtf(mean + epsilon);
  if (threadIdx.x == 0) rstd[blockIdx.x] = scale;
  const T* source = kAdd ? sum : x;  // what this thread read or wrote: in the caches
  for (int c = threadIdx.x * N; c < channels; c += kThreads * N) {
    float v[N], weight[N];
    Load(source + base + c, v);
    Load(w + c, weight);
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = Normed(v[i], scale, weight[i] + offset);
    Store(y + base + c, v);
  }
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
__global__ void __launch_bounds__(kThreads)
    RmsNormBackwardKernel(int rows, int channels, float offset, const T* dy, const T* x, const T* w,
                          const float* rstd, bool accumulate, T* dx, float* partial_dw) {
  extern __shared__ __align__(16) float sums[];  // channels, where there is a partial_dw
  __shared__ float partial[kThreads / 32];
  if (partial_dw != nullptr) {
    for (int c = threadIdx.x * N; c < channels; c += kThreads * N) {
      const float zeros[N] = {};
      Store(sums + c, zeros);
    }
  }
  for (int row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t base = static_cast<int64_t>(row) * channels;
    float products = 0;
    for (int c = threadIdx.x * N; c < channels; c += kThreads * N) {
      float d[N], v[N], weight[N];
      Load(dy + base + c, d);
      Load(x + base + c, v);
      Load(w + c, weight);
#pragma unroll
      for (int i = 0; i < N; ++i) products += d[i] * (weight[i] + offset) * v[i];
    }
    const float r = rstd[row];
    const float mean = OverBlock<kThreads>(products, partial, Sum()) / static_cast<float>(channels);
    const float pull = r * r * mean;
    for (int c = threadIdx.x * N; c < channels; c += kThreads * N) {
      float d[N], v[N], weight[N], out[N];
      Load(dy + base + c, d);
      Load(x + base + c, v);
      Load(w + c, weight);
      if (accumulate) Load(dx + base + c, out);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float gradient = r * (d[i] * (weight[i] + offset) - v[i] * pull);
        out[i] = accumulate ? out[i] + gradient : gradient;
      }
      Store(dx + base + c, out);
      if (partial_dw != nullptr) {
        float total[N];
        Load(sums + c, total);
#pragma unroll
        for (int i = 0; i < N; ++i) total[i] += d[i] * v[i] * r;
        Store(sums + c, total);
      }
    }
  }
  if (partial_dw == nullptr) return;
  float* mine = partial_dw + static_cast<int64_t>(blockIdx.x) * channels;
  for (int c = threadIdx.x * N; c < channels; c += kThreads * N) {  // its own columns: no barrier
    float total[N];
    Load(sums + c, total);
    Store(mine + c, total);
  }
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
  const auto kernel = ByPackets<T>(shape.channels, x, branch, w, sum, y)
                          ? &RmsNormForwardKernel<T, kPacket<T>, kAdd>
                          : &RmsNormForwardKernel<T, 1, kAdd>;
  return Launch("RMS norm", kernel, static_cast<unsigned>(shape.rows), kThreads, 0, stream,
                static_cast<int>(shape.channels), shape.plus_one ? 1.f : 0.f, epsilon, x, branch, w,
                sum, y, rstd);
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
  const auto kernel = ByPackets<T>(channels, dy, x, w, dx, workspace)
                          ? &RmsNormBackwardKernel<T, kPacket<T>>
                          : &RmsNormBackwardKernel<T, 1>;
  const size_t shared = dw == nullptr ? 0 : channels * sizeof(float);
  if (dw != nullptr && channels > kMostRmsNormChannels) {
    return absl::InvalidArgumentError(absl::StrCat("gradient of an RMS norm's weights of ",
                                                   channels, " channels: at most ",
                                                   kMostRmsNormChannels));
  }
  const int blocks = static_cast<int>(BackwardBlocks(rows));
  float* partial_dw = dw == nullptr ? nullptr : workspace;
  RETURN_IF_ERROR(AllowShared("RMS norm's gradient", kernel, shared));
  RETURN_IF_ERROR(Launch("RMS norm's gradient", kernel, blocks, kThreads, shared, stream, rows,
                         channels, shape.plus_one ? 1.f : 0.f, dy, x, w, rstd, accumulate_dx, dx,
                         partial_dw));
  if (dw == nullptr) return absl::OkStatus();
  return AddPartialSums(stream, blocks, channels, channels, workspace, dw);
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
