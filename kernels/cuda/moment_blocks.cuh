// Moments of eight bits in updates: a warp has a block of them (kernels/state_format.h).
#ifndef STRATA_KERNELS_CUDA_MOMENT_BLOCKS_CUH_
#define STRATA_KERNELS_CUDA_MOMENT_BLOCKS_CUH_

#include <cfloat>
#include <cstdint>

#include "kernels/cpu/moment_codes.h"
#include "kernels/cuda/quotients.cuh"
#include "kernels/cuda/update_numbers.cuh"

namespace strata::kernels::cuda {

// MomentCodes as a launch passes it.
struct CodeTable {
  uint32_t greatest[256] = {};
  float4 entries[64] = {};
  int most = 0;
};
// Of each moment that has one; nothing for updates without blocks.
template <int kCount>
struct CodeTables {
  CodeTable of[kCount];
};
template <>
struct CodeTables<0> {};

// In shared memory, since lanes read it at places of their own. Distances whose exponent and upper
// seven bits are the same are a range, in which at most one level begins: its entry has the level
// of the range's first distance above kLowBits bits, which a distance's lower bits overflow into
// where it is of the next level.
struct SharedCodes {
  static constexpr int kLowBits = 16;
  static constexpr uint32_t kLow = (1U << kLowBits) - 1;
  // 2^-21, below which there is one level beside zero; and 1.
  static constexpr uint32_t kLeast = 106U << 23, kOne = 127U << 23;
  static constexpr int kRanges = ((kOne - kLeast) >> kLowBits) + 1;

  __device__ static int RangeOf(uint32_t bits) {
    return static_cast<int>((max(bits, kLeast) - kLeast) >> kLowBits);
  }
  // By a block's first 256 threads; a barrier must follow.
  __device__ void Fill(const CodeTable& table) {
    const int level = static_cast<int>(threadIdx.x);
    if (level < 64) reinterpret_cast<float4*>(entries)[level] = table.entries[level];
    if (level == 0 || level > table.most) return;
    const bool ends = level < table.most;
    const uint32_t last = ends ? table.greatest[level] : 0;
    const int first_range = level == 1 ? 0 : RangeOf(table.greatest[level - 1]) + 1;
    const int last_range = ends ? RangeOf(last) : kRanges - 1;
    for (int range = first_range; range <= last_range; ++range) {
      const uint32_t until_next = ends && range == last_range ? kLow - (last & kLow) : 0;
      ranges[range] = static_cast<uint32_t>(level) << kLowBits | until_next;
    }
  }
  // Of a distance above 0, at most 1.
  __device__ __forceinline__ int LevelOf(float distance) const {
    const uint32_t bits = max(__float_as_uint(distance), kLeast);
    const uint32_t entry = ranges[(bits >> kLowBits) - (kLeast >> kLowBits)];
    return static_cast<int>(((bits & kLow) + entry) >> kLowBits);
  }

  alignas(16) float entries[256];
  uint32_t ranges[kRanges];
};

__device__ __forceinline__ void DecodeBlock(const SharedCodes& codes, const Words& words,
                                            float (&values)[kUpdateNumbers]) {
  const float scale = __uint_as_float(words[2]);
#pragma unroll
  for (int i = 0; i < kUpdateNumbers; ++i) {
    values[i] = __fmul_rn(codes.entries[words[i / 4] >> (8 * (i % 4)) & 0xff], scale);
  }
}

// Codes of a thread's numbers in units of their scale, and of what has the same sign. The entry
// that is nearest is of the same level on both sides of zero; there are 127 below it, or none.
template <typename Quotient>
__device__ __forceinline__ void PutCodes(MomentFormat format, const SharedCodes& codes,
                                         Words& words, const Quotient& quotient) {
#pragma unroll
  for (int i = 0; i < kUpdateNumbers; ++i) {
    float like;  // its sign, and whether it is 0
    const int level = codes.LevelOf(fminf(fabsf(quotient(i, like)), 1));
    int code;
    if (format == MomentFormat::kSigned8) {
      const int of_sign = signbit(like) ? -level : level;
      code = max(127 + (like == 0 ? 0 : of_sign), 0);
    } else {
      code = like <= 0 ? 0 : level;
    }
    words[i / 4] |= static_cast<uint32_t>(code) << (8 * (i % 4));
  }
}

// By a whole warp.
__device__ __forceinline__ void StoreBlock(MomentFormat format, const SharedCodes& codes,
                                           const MomentArray& moment, const Place& place,
                                           const float (&values)[kUpdateNumbers]) {
  // Numbers without sign are not negative. NaN is passed over.
  const bool has_sign = format == MomentFormat::kSigned8;
  float most = 0, least = 0;
#pragma unroll
  for (int i = 0; i < kUpdateNumbers; ++i) {
    most = fmaxf(most, values[i]);
    if (has_sign) least = fminf(least, values[i]);
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const unsigned mask = Planted(Mistake::kNarrowMask) && distance == 8 ? 0xffffu : ~0u;
    most = fmaxf(most, __shfl_xor_sync(mask, most, distance));
    if (has_sign) least = fminf(least, __shfl_xor_sync(mask, least, distance));
  }
  const float scale = fminf(fmaxf(most >= -least ? most : least, -FLT_MAX), FLT_MAX);
  Words words = {};
  // Where quotients are corrected below, what is below the normal numbers is of level 1, as it is.
  if (fabsf(scale) >= 0x1p-70F && fabsf(scale) <= 1) {
    const Divisor divisor(scale);
    PutCodes(format, codes, words, [&](int i, float& like) {
      like = divisor.Near(values[i]);
      return divisor.Correct(like, values[i]);
    });
  } else if (scale != 0) {
    PutCodes(format, codes, words,
             [&](int i, float& like) { return like = __fdiv_rn(values[i], scale); });
  } else if (has_sign) {
    words[0] = words[1] = 0x7f7f7f7f;
  }
  Put<uint8_t>(moment.to, place, words);
  // Version s has its scale perhaps in the same place: all lanes have read it.
  if (!Planted(Mistake::kNoBarrierBeforeReuse)) __syncwarp();
  if (threadIdx.x % 32 == 0) {
    reinterpret_cast<float*>(moment.to + moment.count)[place.at / kMomentBlock] = scale;
  }
}

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_MOMENT_BLOCKS_CUH_
