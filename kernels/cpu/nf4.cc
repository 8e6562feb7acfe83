#include "kernels/nf4.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"
#include "kernels/number_types.h"

namespace strata::kernels {
namespace {

constexpr int64_t kScalesAt = 64;
constexpr int64_t kCodesAt = kScalesAt + kNf4UnitBlocks;
constexpr int64_t kCodesAtOfF32 = 4 * kNf4UnitBlocks;
constexpr float kTiny = 1e-38F;  // a block of zeros is divided by it

// Of numbers `points` apart evenly from 0.1 to 1, the middles, times `factor`: as torch.linspace
// makes them in f32, from both ends.
void AddMiddles(int64_t points, double factor, std::array<float, 256>& numbers, size_t& count) {
  const float step = (1.0F - 0.1F) / static_cast<float>(points - 1);
  const auto point = [&](int64_t i) {
    return i < points / 2 ? std::fma(step, static_cast<float>(i), 0.1F)
                          : std::fma(-step, static_cast<float>(points - 1 - i), 1.0F);
  };
  for (int64_t i = 0; i + 1 < points; ++i) {
    const float middle = (point(i) + point(i + 1)) / 2;
    numbers[count] = static_cast<float>(factor) * middle;
    numbers[count + 1] = -numbers[count];
    count += 2;
  }
}

// Seven bits beside the sign: a power of ten by leading zeros, the rest evenly within it.
std::array<float, 256> MakeScaleNumbers() {
  constexpr int kExponents = 7;
  std::array<float, 256> numbers{};
  size_t count = 0;
  for (int i = 0; i < kExponents; ++i) {
    AddMiddles((int64_t{1} << i) + 1, std::pow(10.0, i - (kExponents - 1)), numbers, count);
  }
  numbers[count++] = 0;
  numbers[count++] = 1;
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// The index of the nearest, of two as near the lower.
template <size_t kCount>
uint8_t NearestOf(const std::array<float, kCount>& middles, float value) {
  return static_cast<uint8_t>(std::lower_bound(middles.begin(), middles.end(), value) -
                              middles.begin());
}

template <size_t kCount>
std::array<float, kCount - 1> MiddlesOf(const std::array<float, kCount>& numbers) {
  std::array<float, kCount - 1> middles;
  for (size_t i = 0; i + 1 < kCount; ++i) middles[i] = (numbers[i] + numbers[i + 1]) / 2;
  return middles;
}

float LargestMagnitude(const float* values, int64_t count) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(values[i]));
  return largest;
}

// The whole unit's codes of weights, by the weights' own scales.
void QuantiseWeights(const float* weights, int64_t count, uint8_t* codes) {
  static const std::array<float, 15> middles = MiddlesOf(Nf4Numbers());
  const uint8_t zero = NearestOf(middles, 0);
  for (int64_t i = 0; i < kNf4Unit; i += kNf4Block) {
    const int64_t there = std::clamp<int64_t>(count - i, 0, kNf4Block);
    const float inverse = 1.0F / std::max(LargestMagnitude(weights + i, there), kTiny);
    for (int64_t j = 0; j < kNf4Block; j += 2) {
      const auto code = [&](int64_t k) {
        if (k >= there) return zero;
        return NearestOf(middles, std::clamp(weights[i + k] * inverse, -1.0F, 1.0F));
      };
      codes[(i + j) / 2] = static_cast<uint8_t>(code(j) << 4 | code(j + 1));
    }
  }
}

// Eight weights from four bytes, without their scale.
simd::Vec Decode(const uint8_t* codes, simd::Vec lower, simd::Vec upper) {
  int32_t four;
  std::memcpy(&four, codes, sizeof(four));
  const __m128i twice = _mm_shuffle_epi8(
      _mm_cvtsi32_si128(four), _mm_setr_epi8(0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0));
  const __m256i shifted =
      _mm256_srlv_epi32(_mm256_cvtepu8_epi32(twice), _mm256_setr_epi32(4, 0, 4, 0, 4, 0, 4, 0));
  // The permutations read three bits of each lane, the fourth says which of them counts.
  return _mm256_blendv_ps(_mm256_permutevar8x32_ps(lower, shifted),
                          _mm256_permutevar8x32_ps(upper, shifted),
                          _mm256_castsi256_ps(_mm256_slli_epi32(shifted, 28)));
}

// The first `count` weights of a unit.
template <typename T, typename ScaleOf>
void DecodeUnit(const uint8_t* codes, const ScaleOf& scale_of, int64_t count, T* weights) {
  const simd::Vec lower = _mm256_loadu_ps(Nf4Numbers().data());
  const simd::Vec upper = _mm256_loadu_ps(Nf4Numbers().data() + 8);
  for (int64_t block = 0; block * kNf4Block < count; ++block) {
    const simd::Vec scale = simd::Set(scale_of(block));
    const uint8_t* const from = codes + block * kNf4Block / 2;
    T* const to = weights + block * kNf4Block;
    const int64_t there = std::min(kNf4Block, count - block * kNf4Block);
    simd::ForEachVec(there, [=](int64_t i, auto lanes) {
      lanes.Store(to + i, _mm256_mul_ps(Decode(from + i / 2, lower, upper), scale));
    });
  }
}

}  // namespace

const std::array<float, 16>& Nf4Numbers() {
  static constexpr std::array<float, 16> kNumbers = {-1.0F,
                                                     -0.6961928009986877F,
                                                     -0.5250730514526367F,
                                                     -0.39491748809814453F,
                                                     -0.28444138169288635F,
                                                     -0.18477343022823334F,
                                                     -0.09105003625154495F,
                                                     0.0F,
                                                     0.07958029955625534F,
                                                     0.16093020141124725F,
                                                     0.24611230194568634F,
                                                     0.33791524171829224F,
                                                     0.44070982933044434F,
                                                     0.5626170039176941F,
                                                     0.7229568362236023F,
                                                     1.0F};
  return kNumbers;
}

const std::array<float, 256>& Nf4ScaleNumbers() {
  static const std::array<float, 256> numbers = MakeScaleNumbers();
  return numbers;
}

double SumOfNf4Scales(const float* weights, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i += kNf4Block) {
    sum += LargestMagnitude(weights + i, std::min(kNf4Block, count - i));
  }
  return sum;
}

void QuantiseNf4Unit(const float* weights, int64_t count, float offset, std::byte* unit) {
  static const std::array<float, 255> middles = MiddlesOf(Nf4ScaleNumbers());
  std::array<float, kNf4UnitBlocks> scales{};
  const int64_t blocks = CeilDiv(count, kNf4Block);
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t there = std::min(kNf4Block, count - i * kNf4Block);
    scales[static_cast<size_t>(i)] = LargestMagnitude(weights + i * kNf4Block, there) - offset;
  }
  const float largest = LargestMagnitude(scales.data(), blocks);
  const float inverse = 1.0F / std::max(largest, kTiny);
  std::memset(unit, 0, kScalesAt);
  std::memcpy(unit, &largest, sizeof(largest));
  std::memcpy(unit + sizeof(largest), &offset, sizeof(offset));
  auto* const codes = reinterpret_cast<uint8_t*>(unit);
  for (int64_t i = 0; i < kNf4UnitBlocks; ++i) {
    const float scaled = std::clamp(scales[static_cast<size_t>(i)] * inverse, -1.0F, 1.0F);
    codes[kScalesAt + i] = NearestOf(middles, scaled);
  }
  QuantiseWeights(weights, count, codes + kCodesAt);
}

void QuantiseNf4F32Unit(const float* weights, int64_t count, std::byte* unit) {
  std::array<float, kNf4UnitBlocks> scales{};
  for (int64_t i = 0; i * kNf4Block < count; ++i) {
    const int64_t there = std::min(kNf4Block, count - i * kNf4Block);
    scales[static_cast<size_t>(i)] = LargestMagnitude(weights + i * kNf4Block, there);
  }
  std::memcpy(unit, scales.data(), sizeof(scales));
  QuantiseWeights(weights, count, reinterpret_cast<uint8_t*>(unit) + kCodesAtOfF32);
}

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

#define STRATA_INSTANTIATE(T)                                                 \
  template void DequantiseNf4(const Context&, const std::byte*, int64_t, T*); \
  template void DequantiseNf4F32(const Context&, const std::byte*, int64_t, T*)
STRATA_INSTANTIATE(float);
STRATA_INSTANTIATE(BFloat16);
STRATA_INSTANTIATE(Float16);
#undef STRATA_INSTANTIATE

}  // namespace strata::kernels
