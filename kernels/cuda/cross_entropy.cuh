// What of cross entropy's kernels is about a row: its packets, its maximum and sum, what its logits
// become.
#ifndef STRATA_KERNELS_CUDA_CROSS_ENTROPY_CUH_
#define STRATA_KERNELS_CUDA_CROSS_ENTROPY_CUH_

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/common.cuh"

namespace strata::kernels::cuda {

constexpr int kBatch = 4;  // packets that a thread has on their way at once from memory

// N logits as they are stored.
template <typename T, int N>
using Packet = std::conditional_t<N == 1, std::remove_const_t<T>, uint4>;

template <typename T, int N>
__device__ __forceinline__ void Unpack(const Packet<T, N>& packet, float (&values)[N]) {
  Load(reinterpret_cast<const std::remove_const_t<T>*>(&packet), values);
}

// Calls body(column, packet) for the packets from column `begin` on, kStep apart, which
// fetch(column) brings.
template <typename T, int N, int kStep, typename Fetch, typename Body>
__device__ __forceinline__ void ForPackets(int begin, int end, Fetch fetch, Body body) {
  for (int first = begin; first < end; first += kBatch * kStep) {
    Packet<T, N> batch[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (first + i * kStep < end) batch[i] = fetch(first + i * kStep);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (first + i * kStep < end) body(first + i * kStep, batch[i]);
    }
  }
}

// --- A row's maximum and sum.

__device__ __forceinline__ float Capped(float logit, float softcap) {
  return softcap == 0 ? logit : softcap * tanhf(logit / softcap);
}

// exp of what is not above 0, to 2^-23 of 1.
__device__ __forceinline__ float Exp(float x) {
  constexpr float kLog2E = 1.44269504f;
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * kLog2E));
  return y;
}

// Of what a thread has seen: the maximum, and the sum of exp(logit - maximum).
struct Normalizer {
  float most = -INFINITY, sum = 0;

  template <int N>
  __device__ __forceinline__ void Add(const float (&logits)[N]) {
    float above = most;
#pragma unroll
    for (int i = 0; i < N; ++i) above = fmaxf(above, logits[i]);
    // Only such ones so far, which add nothing, and NaNs, which must not vanish.
    if (above == -INFINITY) {
#pragma unroll
      for (int i = 0; i < N; ++i) sum += isnan(logits[i]) ? logits[i] : 0.f;
      return;
    }
    sum *= Exp(most - above);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += Exp(logits[i] - above);
    most = above;
  }
};

// The packet's logits from column c on, capped; those from `end` on add nothing.
template <typename T, int N>
__device__ __forceinline__ void AddPacket(const Packet<T, N>& packet, int c, int end, float softcap,
                                          Normalizer& to) {
  float v[N];
  Unpack<T, N>(packet, v);
  if (softcap != 0) {
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = Capped(v[i], softcap);
  }
  if (c + N > end) {
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = c + i < end ? v[i] : -INFINITY;
  }
  to.Add(v);
}

__device__ __forceinline__ Normalizer OverWarp(const Normalizer& mine) {
  Normalizer all = mine;
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const unsigned mask = Planted(Mistake::kNarrowMask) && distance == 8 ? 0xffffu : ~0u;
    all.most = fmaxf(all.most, __shfl_xor_sync(mask, all.most, distance));
  }
  all.sum = mine.sum == 0 ? 0.f : mine.sum * Exp(mine.most - all.most);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    all.sum += __shfl_xor_sync(~0u, all.sum, distance);
  }
  return all;
}

// The same on every thread. `partial`, shared, is free for others' use after one more barrier.
template <int kOfBlock>
__device__ __forceinline__ Normalizer OverBlock(const Normalizer& mine, Normalizer* partial) {
  const int lane = threadIdx.x % 32;
  const Normalizer of_warp = OverWarp(mine);
  if (lane == 0) partial[threadIdx.x / 32] = of_warp;
  if (!Planted(Mistake::kNoBarrierBeforeRead)) __syncthreads();
  return OverWarp(lane < kOfBlock / 32 ? partial[lane] : Normalizer());
}

// --- The gradient.

// What gradients are multiplied by: *at, unless that is null.
struct Scale {
  float value = 0;
  const double* at = nullptr;
  __device__ float Get() const { return at == nullptr ? value : static_cast<float>(*at); }
};

// What becomes of a row's logits: their gradient, which is 0 from column `used` on. `target` may be
// outside: of another part.
struct Gradient {
  float softcap, most, each, factor;
  int used, target;

  __device__ Gradient(const Normalizer& of, int used, float softcap, int target, float factor)
      : softcap(softcap),
        most(of.most),
        each(factor / of.sum),
        factor(factor),
        used(used),
        target(target) {}

  // Of the packet from column c on.
  template <typename T, int N>
  __device__ __forceinline__ void Of(const Packet<T, N>& packet, int c, float (&v)[N]) const {
    float slope[N];
    Unpack<T, N>(packet, v);
    if (softcap != 0) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        v[i] = Capped(v[i], softcap);
        slope[i] = 1.f - v[i] / softcap * (v[i] / softcap);
      }
    }
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = Exp(v[i] - most) * each;
    if (c <= target && target < c + N) {
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] -= c + i == target ? factor : 0.f;
    }
    if (softcap != 0) {
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] *= slope[i];
    }
    if (c + N > used) {
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] = c + i < used ? v[i] : 0.f;
    }
  }
};

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_CROSS_ENTROPY_CUH_
