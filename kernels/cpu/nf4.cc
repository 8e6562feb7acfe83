#include "kernels/nf4.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/nf4_unit.h"
#include "kernels/cpu/parallel.h"

namespace strata::kernels {
namespace {

constexpr float kTiny = 1e-38F;  // a block of zeros is divided by it

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

}  // namespace

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

}  // namespace strata::kernels
