// A block per row, which is read twice: for maximum and sum at once (Milakov and Gimelshein,
// "Online normalizer calculation for softmax", 2018), and to become the gradient.
#include <type_traits>

#include "kernels/cuda/common.cuh"
#include "kernels/cuda/cross_entropy.h"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 512;

__device__ float Capped(float logit, float softcap) {
  return softcap == 0 ? logit : softcap * tanhf(logit / softcap);
}

// Of what a thread has seen: the maximum, and the sum of exp(logit - maximum).
struct Normalizer {
  float most = -INFINITY, sum = 0;

  template <int N>
  __device__ void Add(const float (&logits)[N]) {
    float above = most;
#pragma unroll
    for (int i = 0; i < N; ++i) above = fmaxf(above, logits[i]);
    if (above ==
        -INFINITY) {  // only such ones so far, which add nothing, and NaNs, which must not vanish
#pragma unroll
      for (int i = 0; i < N; ++i) sum += isnan(logits[i]) ? logits[i] : 0.f;
      return;
    }
    sum *= expf(most - above);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += expf(logits[i] - above);
    most = above;
  }
};

// T is const where the logits stay.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    CrossEntropyKernel(int vocab, float softcap, float scale, const int32_t* targets, T* logits,
                       float* losses) {
  __shared__ float partial[kThreads / 32];
  T* row = logits + static_cast<int64_t>(blockIdx.x) * vocab;
  const int target = targets[blockIdx.x];
  if (target < 0) {  // the whole block leaves
    if (threadIdx.x == 0) losses[blockIdx.x] = 0;
    if constexpr (!std::is_const_v<T>) {
      const float zeros[N] = {};
      for (int c = threadIdx.x * N; c < vocab; c += kThreads * N) Store(row + c, zeros);
    }
    return;
  }
  const int end = vocab + (Planted(Mistake::kNoBound) ? N : 0);
  Normalizer mine;
  for (int c = threadIdx.x * N; c < end; c += kThreads * N) {
    float v[N];
    Load(row + c, v);
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = Capped(v[i], softcap);
    mine.Add(v);
  }
  const float most = OverBlock<kThreads>(mine.most, partial, Maximum());
  const float share = mine.sum == 0 ? 0.f : mine.sum * expf(mine.most - most);
  const float sum = OverBlock<kThreads>(share, partial, Sum());
  if (threadIdx.x == 0) {
    losses[blockIdx.x] = logf(sum) + most - Capped(ToF32(row[target]), softcap);
  }
  if constexpr (!std::is_const_v<T>) {
    if (!Planted(Mistake::kInPlaceTooEarly)) __syncthreads();  // the target's logit has been read
    const float each = 1.f / sum;
    for (int c = threadIdx.x * N; c < vocab; c += kThreads * N) {
      float v[N];
      Load(row + c, v);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float logit = Capped(v[i], softcap);
        const float part = softcap == 0 ? 0.f : logit / softcap;
        const float probability = expf(logit - most) * each;
        v[i] = (probability - (c + i == target ? 1.f : 0.f)) * (1.f - part * part) * scale;
      }
      Store(row + c, v);
    }
  }
}

template <typename T>
absl::Status Run(cudaStream_t stream, const LossShape& shape, float scale, const int32_t* targets,
                 T* logits, float* losses) {
  constexpr int64_t kMost = int64_t{1} << 30;
  if (shape.rows < 0 || shape.rows > kMost || shape.vocab < 1 || shape.vocab > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("cross entropy of ", shape.rows, " rows of ", shape.vocab, " logits"));
  }
  if (shape.rows == 0) return absl::OkStatus();
  const auto kernel = ByPackets<T>(shape.vocab, logits) ? &CrossEntropyKernel<T, kPacket<T>>
                                                        : &CrossEntropyKernel<T, 1>;
  return Launch("cross entropy", kernel, static_cast<unsigned>(shape.rows), kThreads, 0, stream,
                static_cast<int>(shape.vocab), shape.softcap, scale, targets, logits, losses);
}

}  // namespace

template <typename T>
absl::Status CrossEntropyForwardBackward(cudaStream_t stream, const LossShape& shape, float scale,
                                         const int32_t* targets, T* logits, float* losses) {
  return Run<T>(stream, shape, scale, targets, logits, losses);
}

template <typename T>
absl::Status CrossEntropyForward(cudaStream_t stream, const LossShape& shape,
                                 const int32_t* targets, const T* logits, float* losses) {
  return Run<const T>(stream, shape, 0, targets, logits, losses);
}

#define STRATA_INSTANTIATE(T)                                                                  \
  template absl::Status CrossEntropyForwardBackward<T>(cudaStream_t, const LossShape&, float,  \
                                                       const int32_t*, T*, float*);            \
  template absl::Status CrossEntropyForward<T>(cudaStream_t, const LossShape&, const int32_t*, \
                                               const T*, float*)
STRATA_INSTANTIATE(float);
STRATA_INSTANTIATE(BFloat16);
#undef STRATA_INSTANTIATE

}  // namespace strata::kernels::cuda
