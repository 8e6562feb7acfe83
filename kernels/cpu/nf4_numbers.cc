#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/nf4.h"

namespace strata::kernels {
namespace {

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

}  // namespace strata::kernels
