// A block per row: sums and maxima over warps and shared memory.
#include <cuda_bf16.h>

#include "device/standin/testing/example_kernels.h"

namespace strata::standin {
namespace {

constexpr int kThreads = 128;
using bf16 = __nv_bfloat16;

// Over the block, the same on every thread. `partial`: a float per warp.
template <Mistake kMistake>
__device__ float BlockSum(float value, float* partial) {
  for (int d = 16; d > 0; d /= 2) value += __shfl_xor_sync(~0u, value, d);
  const bool writes = kMistake != Mistake::kElementNeverWritten || threadIdx.x != 32;
  if (threadIdx.x % 32 == 0 && writes) partial[threadIdx.x / 32] = value;
  if (kMistake != Mistake::kNoBarrierBeforeRead) __syncthreads();
  float total = 0;
  for (int warp = 0; warp < kThreads / 32; ++warp) total += partial[warp];
  __syncthreads();  // partial may be written again
  return total;
}

template <Mistake kMistake>
__device__ float BlockMax(float value, float* partial) {
  for (int d = 16; d > 0; d /= 2) {
    const unsigned mask = kMistake == Mistake::kWrongShuffleMask && d == 8 ? 0xffffu : ~0u;
    value = fmaxf(value, __shfl_xor_sync(mask, value, d));
  }
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  float most = partial[0];
  for (int warp = 1; warp < kThreads / 32; ++warp) most = fmaxf(most, partial[warp]);
  if (kMistake != Mistake::kNoBarrierBeforeReuse) __syncthreads();
  return most;
}

struct alignas(16) Eight {
  __nv_bfloat162 pairs[4];
};

template <Mistake kMistake>
__global__ void __launch_bounds__(kThreads)
    AddRmsNormKernel(int channels, float epsilon, const bf16* x, const bf16* branch,
                     const float* weight, bf16* sum, bf16* y, float* rstd) {
  extern __shared__ __align__(16) float row[];  // channels
  __shared__ float partial[kThreads / 32];
  const size_t base = static_cast<size_t>(blockIdx.x) * channels;
  if (kMistake == Mistake::kReturnBeforeBarrier && static_cast<int>(threadIdx.x) * 8 >= channels) {
    return;
  }
  const int end = channels + (kMistake == Mistake::kPastTheRow ? 8 : 0);
  const int skew = kMistake == Mistake::kMisaligned ? 1 : 0;
  float squares = 0;
  for (int c = threadIdx.x * 8; c < end; c += kThreads * 8) {
    const Eight a = *reinterpret_cast<const Eight*>(x + base + c + skew);
    const Eight b = *reinterpret_cast<const Eight*>(branch + base + c);
    Eight s;
    for (int i = 0; i < 4; ++i) {
      const float2 fa = __bfloat1622float2(a.pairs[i]), fb = __bfloat1622float2(b.pairs[i]);
      s.pairs[i] = __floats2bfloat162_rn(fa.x + fb.x, fa.y + fb.y);
      const float2 f = __bfloat1622float2(s.pairs[i]);
      row[c + 2 * i] = f.x;
      row[c + 2 * i + 1] = f.y;
      squares += f.x * f.x + f.y * f.y;
    }
    *reinterpret_cast<Eight*>(sum + base + c) = s;
  }
  const float scale = rsqrtf(BlockSum<kMistake>(squares, partial) / channels + epsilon);
  if (threadIdx.x == 0) rstd[blockIdx.x] = scale;
  for (int c = threadIdx.x; c < channels; c += kThreads) {
    y[base + c] = __float2bfloat16(row[c] * scale * weight[c]);
  }
}

template <Mistake kMistake>
__global__ void __launch_bounds__(kThreads)
    CrossEntropyKernel(int vocabulary, float scale, const int* targets, bf16* logits,
                       float* losses) {
  __shared__ float partial[kThreads / 32];
  bf16* row = logits + static_cast<size_t>(blockIdx.x) * vocabulary;
  const int target = targets[blockIdx.x];
  if (target < 0) {  // the whole block leaves
    for (int v = threadIdx.x; v < vocabulary; v += kThreads) row[v] = __float2bfloat16(0.f);
    if (threadIdx.x == 0) losses[blockIdx.x] = 0;
    return;
  }
  float most = -INFINITY, sum = 0;
  for (int v = threadIdx.x; v < vocabulary; v += kThreads) {
    const float f = __bfloat162float(row[v]), m = fmaxf(most, f);
    sum = sum * __expf(most - m) + __expf(f - m);
    most = m;
  }
  const float all = BlockMax<kMistake>(most, partial);
  const float mine = most == -INFINITY ? 0.f : sum * __expf(most - all);
  const float total = BlockSum<kMistake>(mine, partial);
  if (threadIdx.x == 0) losses[blockIdx.x] = logf(total) + all - __bfloat162float(row[target]);
  if (kMistake != Mistake::kInPlaceTooEarly) __syncthreads();  // the target's logit has been read
  for (int v = threadIdx.x; v < vocabulary; v += kThreads) {
    const float p = __expf(__bfloat162float(row[v]) - all) / total;
    row[v] = __float2bfloat16((p - (v == target ? 1.f : 0.f)) * scale);
  }
}

}  // namespace

void AddRmsNorm(cudaStream_t stream, int rows, int channels, float epsilon, const bf16* x,
                const bf16* branch, const float* weight, bf16* sum, bf16* y, float* rstd,
                Mistake mistake) {
  const auto launch = [&](auto* kernel) {
    kernel<<<rows, kThreads, channels * sizeof(float), stream>>>(channels, epsilon, x, branch,
                                                                 weight, sum, y, rstd);
  };
  switch (mistake) {
    case Mistake::kNoBarrierBeforeRead:
      return launch(AddRmsNormKernel<Mistake::kNoBarrierBeforeRead>);
    case Mistake::kReturnBeforeBarrier:
      return launch(AddRmsNormKernel<Mistake::kReturnBeforeBarrier>);
    case Mistake::kElementNeverWritten:
      return launch(AddRmsNormKernel<Mistake::kElementNeverWritten>);
    case Mistake::kPastTheRow:
      return launch(AddRmsNormKernel<Mistake::kPastTheRow>);
    case Mistake::kMisaligned:
      return launch(AddRmsNormKernel<Mistake::kMisaligned>);
    default:
      return launch(AddRmsNormKernel<Mistake::kNone>);
  }
}

void CrossEntropy(cudaStream_t stream, int rows, int vocabulary, float scale, const int* targets,
                  bf16* logits, float* losses, Mistake mistake) {
  const auto launch = [&](auto* kernel) {
    kernel<<<rows, kThreads, 0, stream>>>(vocabulary, scale, targets, logits, losses);
  };
  switch (mistake) {
    case Mistake::kNoBarrierBeforeReuse:
      return launch(CrossEntropyKernel<Mistake::kNoBarrierBeforeReuse>);
    case Mistake::kWrongShuffleMask:
      return launch(CrossEntropyKernel<Mistake::kWrongShuffleMask>);
    case Mistake::kInPlaceTooEarly:
      return launch(CrossEntropyKernel<Mistake::kInPlaceTooEarly>);
    default:
      return launch(CrossEntropyKernel<Mistake::kNone>);
  }
}

}  // namespace strata::standin
