// As rmsnorm.cu: a block per row forward; backward each of a fixed number of blocks takes every
// so-manieth row and keeps its share of the gradients of w and b in shared memory.
#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/layernorm.h"

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
__global__ void __launch_bounds__(kThreads)
    LayerNormForwardKernel(int channels, float epsilon, const T* x, const T* branch, const T* w,
                           const T* b, T* sum, T* y, float* statistics) {
  __shared__ float partial[kThreads / 32];
  const int64_t base = static_cast<int64_t>(blockIdx.x) * channels;
  const int end = channels + (Planted(Mistake::kNoBound) ? N : 0);
  const float count = static_cast<float>(channels);
  float total = 0;
  for (int c = threadIdx.x * N; c < end; c += kThreads * N) {
    float v[N];
    Load(x + base + c, v);
    if constexpr (kAdd) {
      float more[N];
      Load(branch + base + c, more);
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] = ToF32(FromF32<T>(v[i] + more[i]));
      Store(sum + base + c, v);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) total += v[i];
  }
  const float mean = OverBlock<kThreads>(total, partial, Sum()) / count;
  const T* source = kAdd ? sum : x;  // what this thread read or wrote: in the caches
  float squares = 0;
  for (int c = threadIdx.x * N; c < channels; c += kThreads * N) {
    float v[N];
    Load(source + base + c, v);
#pragma unroll
    for (int i = 0; i < N; ++i) squares += (v[i] - mean) * (v[i] - mean);
  }
  const float variance = OverBlock<kThreads>(squares, partial, Sum()) / count;
  const float rstd = 1.f / sqrtf(variance + epsilon);
  if (threadIdx.x == 0) {
    statistics[2 * blockIdx.x] = mean;
    statistics[2 * blockIdx.x + 1] = rstd;
  }
  for (int c = threadIdx.x * N; c < channels; c += kThreads * N) {
    float v[N], weight[N], bias[N];
    Load(source + base + c, v);
    Load(w + c, weight);
    Load(b + c, bias);
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = Normed(v[i], mean, rstd, weight[i], bias[i]);
    Store(y + base + c, v);
  }
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
__global__ void __launch_bounds__(kThreads)
    LayerNormBackwardKernel(int rows, int channels, const T* dy, const T* x, const T* w,
                            const float* statistics, bool accumulate, T* dx, float* partials) {
  extern __shared__ __align__(16) float sums[];  // 2 * channels, where there are partials
  __shared__ float partial[kThreads / 32];
  if (partials != nullptr) {  // a thread has the same columns in all loops
    for (int c = threadIdx.x * N; c < channels; c += kThreads * N) {
      const float zeros[N] = {};
      Store(sums + c, zeros);
      Store(sums + channels + c, zeros);
    }
  }
  const float count = static_cast<float>(channels);
  const int end = channels + (Planted(Mistake::kNoBound) ? N : 0);
  for (int row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t base = static_cast<int64_t>(row) * channels;
    const float mean = statistics[2 * row], rstd = statistics[2 * row + 1];
    float plain = 0, products = 0;
    for (int c = threadIdx.x * N; c < end; c += kThreads * N) {
      float d[N], v[N], weight[N];
      Load(dy + base + c, d);
      Load(x + base + c, v);
      Load(w + c, weight);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        v[i] = (v[i] - mean) * rstd;
        plain += d[i] * weight[i];
        products += d[i] * weight[i] * v[i];
      }
      if (partials == nullptr) continue;
      float total[N];
      Load(sums + c, total);
#pragma unroll
      for (int i = 0; i < N; ++i) total[i] += d[i] * v[i];
      Store(sums + c, total);
      Load(sums + channels + c, total);
#pragma unroll
      for (int i = 0; i < N; ++i) total[i] += d[i];
      Store(sums + channels + c, total);
    }
    const float shift = OverBlock<kThreads>(plain, partial, Sum()) / count;
    const float pull = OverBlock<kThreads>(products, partial, Sum()) / count;
    for (int c = threadIdx.x * N; c < channels; c += kThreads * N) {
      float d[N], v[N], weight[N];
      Load(dy + base + c, d);
      Load(x + base + c, v);
      Load(w + c, weight);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        d[i] = rstd * (d[i] * weight[i] - shift - (v[i] - mean) * rstd * pull);
      }
      if (accumulate) {
        Load(dx + base + c, v);
#pragma unroll
        for (int i = 0; i < N; ++i) d[i] += v[i];
      }
      Store(dx + base + c, d);
    }
  }
  if (partials == nullptr) return;
  float* mine = partials + static_cast<int64_t>(blockIdx.x) * 2 * channels;
  for (int c = threadIdx.x * N; c < channels; c += kThreads * N) {
    float dw[N], db[N];
    Load(sums + c, dw);
    Load(sums + channels + c, db);
    Store(mine + c, dw);
    Store(mine + channels + c, db);
  }
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
  const auto kernel = ByPackets<T>(shape.channels, x, branch, w, b, sum, y)
                          ? &LayerNormForwardKernel<T, kPacket<T>, kAdd>
                          : &LayerNormForwardKernel<T, 1, kAdd>;
  return Launch("layer norm", kernel, static_cast<unsigned>(shape.rows), kThreads, 0, stream,
                static_cast<int>(shape.channels), epsilon, x, branch, w, b, sum, y, statistics);
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
  const auto kernel = ByPackets<T>(channels, dy, x, w, dx, workspace)
                          ? &LayerNormBackwardKernel<T, kPacket<T>>
                          : &LayerNormBackwardKernel<T, 1>;
  const size_t shared = partials == nullptr ? 0 : 2 * channels * sizeof(float);
  const int blocks = static_cast<int>(BackwardBlocks(rows));
  RETURN_IF_ERROR(AllowShared("layer norm's gradient", kernel, shared));
  RETURN_IF_ERROR(Launch("layer norm's gradient", kernel, blocks, kThreads, shared, stream, rows,
                         channels, dy, x, w, statistics, accumulate_dx, dx, partials));
  if (partials == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(AddPartialSums(stream, blocks, channels, 2 * channels, partials, dw));
  return AddPartialSums(stream, blocks, channels, 2 * channels, partials + channels, db);
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
