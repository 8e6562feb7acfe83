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

// Code for the other case is out of the loops' way.
__device__ __forceinline__ bool Likely(bool condition) { return __builtin_expect(condition, 1); }

__device__ __forceinline__ float Capped(float logit, float softcap) {
  return softcap == 0 ? logit : softcap * tanhf(logit / softcap);
}

constexpr float kLog2E = 1.44269504f;

// To 2^-22 of it.
__device__ __forceinline__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// exp(x - most) is Exp2(x * kLog2E - Shift(most)), one operation less, but for the shift's
// rounding, which is the same for all x: times 2^Rounding(most).
__device__ __forceinline__ float Shift(float most) {
  return __fmul_rn(most, kLog2E);  // which no addition takes in without the rounding
}
__device__ __forceinline__ float Rounding(float most) {
  return isinf(most) ? 0.f : fmaf(most, kLog2E, -Shift(most));
}

// Of what a thread has seen: the maximum, and the sum of exp(logit - maximum), as rounded.
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
    const float shift = Shift(above);
    sum *= Exp2(Shift(most) - shift);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += Exp2(fmaf(logits[i], kLog2E, -shift));
    most = above;
  }
};

// The packet's logits from column c on, capped; those from `end` on add nothing.
template <typename T, int N>
__device__ __forceinline__ void AddPacket(const Packet<T, N>& packet, int c, int end, float softcap,
                                          Normalizer& to) {
  float v[N];
  Unpack<T, N>(packet, v);
  if (!Likely(softcap == 0)) {
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
  all.sum = mine.sum == 0 ? 0.f : mine.sum * Exp2(Shift(mine.most) - Shift(all.most));
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    all.sum += __shfl_xor_sync(~0u, all.sum, distance);
  }
  return all;
}

// The same on every thread, the sum without the rounding. `partial`, shared, is free for others'
// use after one more barrier.
template <int kOfBlock>
__device__ __forceinline__ Normalizer OverBlock(const Normalizer& mine, Normalizer* partial) {
  const int lane = threadIdx.x % 32;
  const Normalizer of_warp = OverWarp(mine);
  if (lane == 0) partial[threadIdx.x / 32] = of_warp;
  if (!Planted(Mistake::kNoBarrierBeforeRead)) __syncthreads();
  Normalizer all = OverWarp(lane < kOfBlock / 32 ? partial[lane] : Normalizer());
  all.sum *= Exp2(-Rounding(all.most));
  return all;
}

// --- The gradient.

// What gradients are multiplied by: *at, unless that is null.
struct Scale {
  float value = 0;
  const double* at = nullptr;
  __device__ float Get() const { return at == nullptr ? value : static_cast<float>(*at); }
};

// What becomes of a row's logits, which are 0 from column `used` on: as if none were the target,
// for which OfTarget is.
struct Gradient {
  float softcap, shift, each, factor;
  int used;

  __device__ Gradient(const Normalizer& of, int used, float softcap, float factor)
      : softcap(softcap),
        shift(Shift(of.most)),
        each(factor / of.sum * Exp2(-Rounding(of.most))),
        factor(factor),
        used(used) {}

  // Of the packet from column c on.
  template <typename T, int N>
  __device__ __forceinline__ void Of(const Packet<T, N>& packet, int c, float (&v)[N]) const {
    Unpack<T, N>(packet, v);
    if (Likely(softcap == 0)) {
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] = Share(v[i]);
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] = Capping(v[i], 0);
    }
    if (c + N > used) {
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] = c + i < used ? v[i] : 0.f;
    }
  }

  __device__ float OfTarget(float logit) const {
    return softcap == 0 ? Share(logit) - factor : Capping(logit, factor);
  }

 private:
  __device__ __forceinline__ float Share(float capped) const {
    return Exp2(fmaf(capped, kLog2E, -shift)) * each;
  }
  __device__ __forceinline__ float Capping(float logit, float less) const {
    const float capped = Capped(logit, softcap);
    return (Share(capped) - less) * (1.f - capped / softcap * (capped / softcap));
  }
};

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_CROSS_ENTROPY_CUH_
