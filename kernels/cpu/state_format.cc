#include "kernels/state_format.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/simd.h"

namespace strata::kernels {
namespace {

using simd::Vec;

template <typename T>
const T* As(const std::byte* data) {
  return reinterpret_cast<const T*>(data);
}
template <typename T>
T* As(std::byte* data) {
  return reinterpret_cast<T*>(data);
}

constexpr int kDecades = 7;

// Of a table of eight bits, as bitsandbytes' create_dynamic_map makes them, in float: what is above
// zero of decade d, the means of 2^d (with a sign) or 2^(d+1) equal intervals of [0.1, 1], in units
// of 10^(d-6).
std::vector<float> EntriesOf(bool has_sign, int decade) {
  const int intervals = 1 << (has_sign ? decade : decade + 1);
  const float step = (1.0F - 0.1F) / static_cast<float>(intervals);
  const auto boundary = [&](int i) {  // from the nearer end, as torch.linspace has it
    return i < (intervals + 1) / 2 ? std::fma(step, static_cast<float>(i), 0.1F)
                                   : std::fma(-step, static_cast<float>(intervals - i), 1.0F);
  };
  const float scale = static_cast<float>(std::pow(10.0, decade - (kDecades - 1)));
  std::vector<float> entries;
  for (int i = 0; i < intervals; ++i) {
    entries.push_back(scale * ((boundary(i) + boundary(i + 1)) / 2.0F));
  }
  return entries;
}

// A table and how its nearest entry is found: level 0 is zero, then those above it, ascending; a
// level below zero is that of the same distance. Within a decade entries are equally far apart, so
// that a level is a linear function, rounded down; it is another one above the middle between two
// decades' nearest entries.
struct Codes {
  explicit Codes(bool has_sign) : zero(has_sign ? 127 : 0) {
    std::vector<float> levels = {0};
    for (int d = 0; d < kDecades; ++d) {
      const std::vector<float> entries = EntriesOf(has_sign, d);
      const double count = static_cast<double>(entries.size());
      above[d] = d == 0 ? 0 : (levels.back() + entries.front()) / 2;
      base[d] = static_cast<float>(levels.size());
      last[d] = static_cast<float>(count - 1);
      slope[d] = static_cast<float>(std::pow(10.0, kDecades - 1 - d) * count / 0.9);
      offset[d] = static_cast<float>(-count / 9);
      levels.insert(levels.end(), entries.begin(), entries.end());
    }
    one_above = (levels.back() + 1) / 2;
    levels.push_back(1);
    most = static_cast<float>(levels.size() - 1);
    for (int i = 0; i < static_cast<int>(levels.size()); ++i) {
      table[zero + i] = levels[i];
      if (i > 0 && i <= zero) table[zero - i] = -levels[i];
    }
  }

  // Of eight numbers in [-1, 1].
  __m256i Of(Vec value) const {
    const Vec sign = _mm256_and_ps(value, simd::Set(-0.0F));
    const Vec distance = _mm256_min_ps(_mm256_andnot_ps(simd::Set(-0.0F), value), simd::Set(1));
    __m256i decade = _mm256_setzero_si256();
    for (int d = 1; d < kDecades; ++d) {
      const Vec beyond = _mm256_cmp_ps(distance, simd::Set(above[d]), _CMP_GT_OQ);
      decade = _mm256_sub_epi32(decade, _mm256_castps_si256(beyond));
    }
    const auto of_decade = [decade](const float* by_decade) {
      return _mm256_permutevar8x32_ps(_mm256_load_ps(by_decade), decade);
    };
    const Vec of_slope = of_decade(slope), of_offset = of_decade(offset);
    const Vec of_base = of_decade(base), of_last = of_decade(last);
    Vec inside = _mm256_floor_ps(_mm256_fmadd_ps(distance, of_slope, of_offset));
    inside = _mm256_min_ps(_mm256_max_ps(inside, simd::Zero()), of_last);
    Vec level = _mm256_add_ps(of_base, inside);
    const Vec top = _mm256_cmp_ps(distance, simd::Set(one_above), _CMP_GT_OQ);
    level = _mm256_blendv_ps(level, simd::Set(most), top);
    level = _mm256_and_ps(level, _mm256_cmp_ps(distance, simd::Zero(), _CMP_NEQ_UQ));
    const Vec below = _mm256_min_ps(level, simd::Set(static_cast<float>(zero)));
    level = _mm256_blendv_ps(level, below, sign);  // chosen by the sign bit
    return _mm256_cvtps_epi32(
        _mm256_add_ps(simd::Set(static_cast<float>(zero)), _mm256_xor_ps(level, sign)));
  }

  int zero;  // the code of 0; as many levels lie below it
  // By decade, which is a lane.
  alignas(32) float above[simd::kLanes] = {}, base[simd::kLanes] = {}, last[simd::kLanes] = {};
  alignas(32) float slope[simd::kLanes] = {}, offset[simd::kLanes] = {};
  float one_above = 0, most = 0;
  std::array<float, 256> table{};
};

const Codes& CodesOf(MomentFormat format) {
  static const Codes& with_sign = *new Codes(true);
  static const Codes& without = *new Codes(false);
  return format == MomentFormat::kSigned8 ? with_sign : without;
}

float ScaleOf(const float* values) {
  Vec most = simd::Zero(), least = simd::Zero();
  for (int64_t i = 0; i < kMomentBlock; i += simd::kLanes) {
    // NaN, as the first operand, is passed over.
    most = _mm256_max_ps(_mm256_loadu_ps(values + i), most);
    least = _mm256_min_ps(_mm256_loadu_ps(values + i), least);
  }
  const float high = simd::Max(most), low = -simd::Max(_mm256_xor_ps(least, simd::Set(-0.0F)));
  constexpr float kMost = std::numeric_limits<float>::max();
  return std::clamp(high >= -low ? high : low, -kMost, kMost);
}

void WriteBlock(const Codes& codes, const float* values, uint8_t* to, float* scale) {
  *scale = ScaleOf(values);
  if (*scale == 0) {
    std::fill_n(to, kMomentBlock, static_cast<uint8_t>(codes.zero));
    return;
  }
  const Vec divisor = simd::Set(*scale);
  for (int64_t i = 0; i < kMomentBlock; i += simd::kLanes) {
    const __m256i of = codes.Of(_mm256_div_ps(_mm256_loadu_ps(values + i), divisor));
    const __m128i words =
        _mm_packus_epi32(_mm256_castsi256_si128(of), _mm256_extracti128_si256(of, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + i), _mm_packus_epi16(words, words));
  }
}

// Eight at a time, the last few alone: `vec(i)`, `one(i)`.
template <typename Vector, typename Single>
[[gnu::always_inline]] inline void ForEach(int64_t size, Vector vec, Single one) {
  int64_t i = 0;
  for (; i + simd::kLanes <= size; i += simd::kLanes) vec(i);
  for (; i < size; ++i) one(i);
}

Vec LoadVec(const float* from) { return _mm256_loadu_ps(from); }
__m256i LoadWords(const void* from) {  // eight of 16 bits
  return _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(from)));
}
// The lower halves of eight.
void StoreWords(void* to, __m256i words) {
  const __m128i narrow =
      _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(static_cast<__m128i*>(to), narrow);
}

// RoundAwayToBFloat16 of eight.
__m256i RoundAway(Vec values) {
  const __m256i bits = _mm256_castps_si256(values);
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(values, values, _CMP_UNORD_Q));
  const __m256i rounded = _mm256_add_epi32(bits, _mm256_set1_epi32(0x8000));
  return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
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

const std::array<float, 256>& MomentTable(MomentFormat format) { return CodesOf(format).table; }

float* MasterInF32(const Weights& weights) {
  if (weights.master_format == MasterFormat::kF32) return As<float>(weights.master);
  const bool plain =
      weights.master_format == MasterFormat::kNone && weights.type == NumberType::kF32;
  return plain ? As<float>(weights.weights) : nullptr;
}

float* MomentsInF32(const Moments& moments) {
  return moments.format == MomentFormat::kF32 ? As<float>(moments.data) : nullptr;
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
  const Codes& codes = CodesOf(moments.format);
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
        const __m256i high = _mm256_slli_epi32(LoadWords(upper + i), 16);
        const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rest + i));
        const __m256i bits = _mm256_add_epi32(high, _mm256_cvtepi16_epi32(low));
        _mm256_storeu_ps(out + i, _mm256_castsi256_ps(bits));
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
          size, [=](int64_t i) { StoreWords(to + i, RoundAway(LoadVec(values + i))); },
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
      const __m256i lower = _mm256_set1_epi32(0xffff);
      ForEach(
          size,
          [=](int64_t i) {
            const __m256i bits = _mm256_castps_si256(LoadVec(values + i));
            StoreWords(to + i, _mm256_and_si256(bits, lower));
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

}  // namespace strata::kernels
