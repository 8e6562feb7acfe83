#include <algorithm>
#include <cstring>

#include "kernels/cpu/nf4_unit.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"
#include "kernels/nf4.h"

namespace strata::kernels::STRATA_ISA {
namespace {

// The first `count` weights of a unit.
template <typename T, typename ScaleOf>
void DecodeUnit(const uint8_t* codes, const ScaleOf& scale_of, int64_t count, T* weights) {
  const float* const numbers = Nf4Numbers().data();
  for (int64_t block = 0; block * kNf4Block < count; ++block) {
    const simd::Vec scale = simd::Set(scale_of(block));
    const uint8_t* const from = codes + block * kNf4Block / 2;
    T* const to = weights + block * kNf4Block;
    const int64_t there = std::min(kNf4Block, count - block * kNf4Block);
    simd::ForEachVec(there, [=](int64_t i, auto lanes) {
      const simd::Ints at = simd::LoadHalves(from + i / 2, simd::Vec{});
      lanes.Store(to + i, simd::Mul(simd::EntriesOfSixteen(numbers, at), scale));
    });
  }
}

}  // namespace

template <typename T>
void DequantiseNf4(const Context& context, const std::byte* units, int64_t count, T* weights) {
  ForBlocks(context, count, kNf4Unit, [=](int64_t begin, int64_t end) {
    const std::byte* const unit = units + begin / kNf4Unit * kNf4UnitBytes;
    const auto* const codes = reinterpret_cast<const uint8_t*>(unit);
    float largest, offset;
    std::memcpy(&largest, unit, sizeof(largest));
    std::memcpy(&offset, unit + sizeof(largest), sizeof(offset));
    const auto scale_of = [=](int64_t block) {
      const float number = Nf4ScaleNumbers()[codes[kScalesAt + block]];
      return number * largest + offset;
    };
    DecodeUnit(codes + kCodesAt, scale_of, end - begin, weights + begin);
  });
}

template <typename T>
void DequantiseNf4F32(const Context& context, const std::byte* units, int64_t count, T* weights) {
  ForBlocks(context, count, kNf4Unit, [=](int64_t begin, int64_t end) {
    const std::byte* const unit = units + begin / kNf4Unit * kNf4F32UnitBytes;
    const auto scale_of = [=](int64_t block) {
      float scale;
      std::memcpy(&scale, unit + block * static_cast<int64_t>(sizeof(scale)), sizeof(scale));
      return scale;
    };
    const auto* const codes = reinterpret_cast<const uint8_t*>(unit) + kCodesAtOfF32;
    DecodeUnit(codes, scale_of, end - begin, weights + begin);
  });
}

}  // namespace strata::kernels::STRATA_ISA

namespace strata::kernels {

STRATA_KERNEL(void, DequantiseNf4, const Context&, const std::byte*, int64_t, T*)
STRATA_KERNEL(void, DequantiseNf4F32, const Context&, const std::byte*, int64_t, T*)

}  // namespace strata::kernels
