#include "kernels/state_format.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/moment_codes.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA {
namespace {

using simd::Ints;
using simd::Vec;

template <typename T>
const T* As(const std::byte* data) {
  return reinterpret_cast<const T*>(data);
}
template <typename T>
T* As(std::byte* data) {
  return reinterpret_cast<T*>(data);
}

// The codes of numbers in [-1, 1].
Ints CodesOf(const MomentCodes& codes, Vec value) {
  const Vec sign = simd::And(value, simd::Set(-0.0F));
  const Vec distance = simd::Min(simd::AndNot(simd::Set(-0.0F), value), simd::Set(1));
  Ints decade = simd::SetInts(0);
  for (int d = 1; d < MomentCodes::kDecades; ++d) {
    decade = simd::Count(simd::Greater(distance, simd::Set(codes.above[d])), decade);
  }
  const auto of_decade = [decade](const float* table) {
    return simd::EntriesOfEight(table, decade);
  };
  const Vec of_slope = of_decade(codes.slope), of_offset = of_decade(codes.offset);
  const Vec of_base = of_decade(codes.base), of_last = of_decade(codes.last);
  Vec inside = simd::Floor(simd::MulAdd(distance, of_slope, of_offset));
  inside = simd::Min(simd::Max(inside, simd::Zero()), of_last);
  Vec level = simd::Add(of_base, inside);
  level = simd::Choose(simd::Greater(distance, simd::Set(codes.one_above)), simd::Set(codes.most),
                       level);
  level = simd::KeepWhere(simd::Differs(distance, simd::Zero()), level);
  const Vec zero = simd::Set(static_cast<float>(codes.zero));
  level = simd::Choose(simd::IsNegative(sign), simd::Min(level, zero), level);
  return simd::Nearest(simd::Add(zero, simd::Xor(level, sign)));
}

float ScaleOf(const float* values) {
  Vec most = simd::Zero(), least = simd::Zero();
  for (int64_t i = 0; i < kMomentBlock; i += simd::kLanes) {
    // NaN, as the first operand, is passed over.
    most = simd::Max(simd::Load(values + i), most);
    least = simd::Min(simd::Load(values + i), least);
  }
  const float high = simd::Max(most), low = -simd::Max(simd::Xor(least, simd::Set(-0.0F)));
  constexpr float kMost = std::numeric_limits<float>::max();
  return std::clamp(high >= -low ? high : low, -kMost, kMost);
}

void WriteBlock(const MomentCodes& codes, const float* values, uint8_t* to, float* scale) {
  *scale = ScaleOf(values);
  if (*scale == 0) {
    std::fill_n(to, kMomentBlock, static_cast<uint8_t>(codes.zero));
    return;
  }
  const Vec divisor = simd::Set(*scale);
  for (int64_t i = 0; i < kMomentBlock; i += simd::kLanes) {
    simd::StoreBytes(to + i, CodesOf(codes, simd::Div(simd::Load(values + i), divisor)));
  }
}

// A vector at a time, the last few alone: `vec(i)`, `one(i)`.
template <typename Vector, typename Single>
[[gnu::always_inline]] inline void ForEach(int64_t size, Vector vec, Single one) {
  int64_t i = 0;
  for (; i + simd::kLanes <= size; i += simd::kLanes) vec(i);
  for (; i < size; ++i) one(i);
}

Ints LoadWords(const void* from) { return simd::LoadWords(from, Vec{}); }

// RoundAwayToBFloat16.
Ints RoundAway(Vec values) {
  const Ints bits = simd::AsInts(values);
  const Ints quiet = simd::Or(bits, simd::SetInts(0x400000));
  const Ints rounded = simd::Add(bits, simd::SetInts(0x8000));
  return simd::ShiftRight<16>(simd::Choose(simd::IsNan(values), quiet, rounded));
}

bool IsNan(uint32_t bits) { return (bits & 0x7fffffff) > 0x7f800000; }

}  // namespace

BFloat16 RoundAwayToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (IsNan(bits)) return {static_cast<uint16_t>(bits >> 16 | 0x40)};
  return {static_cast<uint16_t>((bits + 0x8000) >> 16)};
}

Float16 RoundAwayToFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffff;
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  if (IsNan(bits)) return {static_cast<uint16_t>(sign | 0x7e00)};
  if (magnitude >= 0x477ff000) return {static_cast<uint16_t>(sign | 0x7c00)};
  if (magnitude < 0x38800000) {  // below 2^-14: whole multiples of 2^-24
    const float units = std::bit_cast<float>(magnitude) * 0x1p24F;  // exact
    const float whole = std::floor(units), up = units - whole >= 0.5F ? 1 : 0;
    return {static_cast<uint16_t>(sign | static_cast<uint16_t>(whole + up))};
  }
  return {static_cast<uint16_t>(sign | (magnitude + 0x1000 - 0x38000000) >> 13)};
}

void ReadMoments(const Moments& moments, int64_t begin, int64_t size, float* out) {
  switch (moments.format) {
    case MomentFormat::kF32:
      return ReadNumbers(NumberType::kF32, moments.data, begin, size, out);
    case MomentFormat::kBF16:
      return ReadNumbers(NumberType::kBF16, moments.data, begin, size, out);
    case MomentFormat::kSigned8:
    case MomentFormat::kUnsigned8:
      break;
  }
  const float* const table = MomentTable(moments.format).data();
  const auto* const codes = As<uint8_t>(moments.data) + begin;
  const auto* const scales = As<float>(moments.data + moments.count) + begin / kMomentBlock;
  for (int64_t first = 0; first < size; first += kMomentBlock) {
    const float scale = scales[first / kMomentBlock];
    const int64_t end = std::min(size, first + kMomentBlock);
    for (int64_t i = first; i < end; ++i) out[i] = table[codes[i]] * scale;
  }
}

void WriteMoments(const Moments& moments, int64_t begin, int64_t size, const float* values) {
  switch (moments.format) {
    case MomentFormat::kF32:
      std::memcpy(As<float>(moments.data) + begin, values, size * sizeof(float));
      return;
    case MomentFormat::kBF16: {
      auto* const to = As<BFloat16>(moments.data) + begin;
      simd::ForEachVec(size,
                       [=](int64_t i, auto lanes) { lanes.Store(to + i, lanes.Load(values + i)); });
      return;
    }
    case MomentFormat::kSigned8:
    case MomentFormat::kUnsigned8:
      break;
  }
  const MomentCodes& codes = CodesOf(moments.format);
  auto* const to = As<uint8_t>(moments.data) + begin;
  auto* const scales = As<float>(moments.data + moments.count) + begin / kMomentBlock;
  for (int64_t i = 0; i < size; i += kMomentBlock) {
    WriteBlock(codes, values + i, to + i, scales + i / kMomentBlock);
  }
}

void ReadMaster(const Weights& weights, int64_t begin, int64_t size, float* out) {
  switch (weights.master_format) {
    case MasterFormat::kNone:
      return ReadNumbers(weights.type, weights.weights, begin, size, out);
    case MasterFormat::kF32:
      return ReadNumbers(NumberType::kF32, weights.master, begin, size, out);
    case MasterFormat::kRemainder:
      break;
  }
  const auto* const upper = As<uint16_t>(weights.weights) + begin;
  const auto* const rest = As<int16_t>(weights.master) + begin;
  ForEach(
      size,
      [=](int64_t i) {
        const Ints high = simd::ShiftLeft<16>(LoadWords(upper + i));
        const Ints low = simd::LoadSignedWords(rest + i, Vec{});
        simd::Store(out + i, simd::AsFloats(simd::Add(high, low)));
      },
      [=](int64_t i) {
        const uint32_t bits = (uint32_t{upper[i]} << 16) + static_cast<uint32_t>(int32_t{rest[i]});
        out[i] = std::bit_cast<float>(bits);
      });
}

void WriteMaster(const Weights& weights, int64_t begin, int64_t size, const float* values) {
  WriteWeights(weights, begin, size, values);
  WriteMasterOnly(weights, begin, size, values);
}

void WriteWeights(const Weights& weights, int64_t begin, int64_t size, const float* values) {
  switch (weights.type) {
    case NumberType::kF32:
      std::memcpy(As<float>(weights.weights) + begin, values, size * sizeof(float));
      return;
    case NumberType::kBF16: {
      auto* const to = As<BFloat16>(weights.weights) + begin;
      ForEach(
          size, [=](int64_t i) { simd::StoreWords(to + i, RoundAway(simd::Load(values + i))); },
          [=](int64_t i) { to[i] = RoundAwayToBFloat16(values[i]); });
      return;
    }
    case NumberType::kF16: {
      auto* const to = As<Float16>(weights.weights) + begin;
      for (int64_t i = 0; i < size; ++i) to[i] = RoundAwayToFloat16(values[i]);
      return;
    }
  }
}

void StreamWeights(const Weights& weights, int64_t begin, int64_t size, const float* values) {
  std::byte* const to = weights.weights + 2 * begin;
  constexpr int64_t kVectorBytes = 2 * simd::kLanes;
  if (weights.type != NumberType::kBF16 || size % simd::kLanes != 0 ||
      reinterpret_cast<uintptr_t>(to) % kVectorBytes != 0) {
    return STRATA_ISA::WriteWeights(weights, begin, size, values);
  }
  for (int64_t i = 0; i < size; i += simd::kLanes) {
    simd::StreamWords(to + 2 * i, RoundAway(simd::Load(values + i)));
  }
}

void WriteMasterOnly(const Weights& weights, int64_t begin, int64_t size, const float* values) {
  switch (weights.master_format) {
    case MasterFormat::kNone:
      return;
    case MasterFormat::kF32:
      std::memcpy(As<float>(weights.master) + begin, values, size * sizeof(float));
      return;
    case MasterFormat::kRemainder: {
      // Of the master less its rounded upper half, whose lower one is zero: the master's own.
      auto* const to = As<uint16_t>(weights.master) + begin;
      ForEach(
          size,
          [=](int64_t i) {
            const Ints bits = simd::AsInts(simd::Load(values + i));
            simd::StoreWords(to + i, simd::And(bits, simd::SetInts(0xffff)));
          },
          [=](int64_t i) { to[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(values[i])); });
      return;
    }
  }
}

void ReadNumbers(NumberType type, const std::byte* data, int64_t begin, int64_t size, float* out) {
  switch (type) {
    case NumberType::kF32:
      std::memcpy(out, As<float>(data) + begin, size * sizeof(float));
      return;
    case NumberType::kBF16: {
      const auto* const from = As<BFloat16>(data) + begin;
      simd::ForEachVec(size,
                       [=](int64_t i, auto lanes) { lanes.Store(out + i, lanes.Load(from + i)); });
      return;
    }
    case NumberType::kF16: {
      const auto* const from = As<Float16>(data) + begin;
#pragma GCC ivdep
      for (int64_t i = 0; i < size; ++i) out[i] = ToFloat(from[i]);
      return;
    }
  }
}

}  // namespace strata::kernels::STRATA_ISA

namespace strata::kernels {

STRATA_PLAIN_KERNEL(BFloat16, RoundAwayToBFloat16, float)
STRATA_PLAIN_KERNEL(Float16, RoundAwayToFloat16, float)
STRATA_PLAIN_KERNEL(void, ReadMoments, const Moments&, int64_t, int64_t, float*)
STRATA_PLAIN_KERNEL(void, WriteMoments, const Moments&, int64_t, int64_t, const float*)
STRATA_PLAIN_KERNEL(void, ReadMaster, const Weights&, int64_t, int64_t, float*)
STRATA_PLAIN_KERNEL(void, WriteMaster, const Weights&, int64_t, int64_t, const float*)
STRATA_PLAIN_KERNEL(void, WriteWeights, const Weights&, int64_t, int64_t, const float*)
STRATA_PLAIN_KERNEL(void, StreamWeights, const Weights&, int64_t, int64_t, const float*)
STRATA_PLAIN_KERNEL(void, WriteMasterOnly, const Weights&, int64_t, int64_t, const float*)
STRATA_PLAIN_KERNEL(void, ReadNumbers, NumberType, const std::byte*, int64_t, int64_t, float*)

}  // namespace strata::kernels
