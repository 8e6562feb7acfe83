#include "kernels/int8.h"

#include <limits>

#include "kernels/cpu/test_util.h"
#include "kernels/reference/int8.h"

namespace strata::kernels {
namespace {

using testing::Doubles;
using testing::Floats;

struct Quantised {
  std::vector<int8_t> codes;
  Floats scales;
};

Quantised Quantise(const Floats& weights, int64_t columns) {
  Quantised result;
  result.codes.resize(weights.size());
  for (int64_t i = 0; i < static_cast<int64_t>(weights.size()); i += columns) {
    result.scales.push_back(Int8Scale(&weights[i], columns));
    QuantiseInt8(&weights[i], columns, result.scales.back(), &result.codes[i]);
  }
  return result;
}

template <typename T>
Floats Dequantised(const Quantised& from, int64_t columns) {
  return testing::RunWithThreads([&](const Context& context) {
    std::vector<T> weights(from.codes.size());
    DequantiseInt8(context, from.codes.data(), from.scales.data(),
                   static_cast<int64_t>(from.scales.size()), columns, weights.data());
    return testing::Back(weights);
  });
}

template <typename T>
void ExpectInt8() {
  constexpr struct {
    int64_t rows, columns;
  } kShapes[] = {{1, 1}, {5, 7}, {33, 40}, {100, 257}, {2, 20000}};
  for (const auto& [rows, columns] : kShapes) {
    Floats weights = testing::Random(rows * columns, 1, 0.02F);
    // Rows of other sizes, one of zeros.
    for (int64_t i = 0; i < rows * columns; ++i) weights[i] *= static_cast<float>(i / columns);
    const Quantised found = Quantise(weights, columns);
    const reference::Int8Rows expected = reference::QuantiseInt8(testing::Widen(weights), columns);
    testing::ExpectClose(found.scales, expected.scales, 1e-7);
    for (size_t i = 0; i < found.codes.size(); ++i) {
      // f32 quotients may fall on the other side of a half.
      const double quotient = weights[i] / expected.scales[i / columns];
      const double to_half = std::abs(quotient - std::floor(quotient) - 0.5);
      ASSERT_LE(std::abs(found.codes[i] - expected.codes[i]), to_half > 1e-4 ? 0 : 1) << i;
    }
    const reference::Int8Rows same{{found.codes.begin(), found.codes.end()},
                                   testing::Widen(found.scales)};
    testing::ExpectRounded<T>(Dequantised<T>(found, columns), reference::DequantiseInt8(same),
                              1e-7);
  }
}

TEST(Int8, RowsAreThoseOfTheReference) {
  ExpectInt8<float>();
  ExpectInt8<BFloat16>();
  ExpectInt8<Float16>();
}

TEST(Int8, OfTwoCodesAsNearTheEvenOneIsTaken) {
  const Floats row = {127, 0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -127};
  const Quantised found = Quantise(row, 7);
  EXPECT_EQ(found.scales[0], 1);
  EXPECT_EQ(found.codes, std::vector<int8_t>({127, 0, 2, 2, 0, -2, -127}));
}

TEST(Int8, NumbersThatAreNotFiniteStayVisible) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const Quantised found = Quantise({1, bad, 2, 3, 4, 5}, 3);
    const Floats back = Dequantised<float>(found, 3);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(back[i]));
    EXPECT_NEAR(back[4], 4, 0.02);
  }
}

TEST(Int8, NumbersTooSmallForAScaleBecomeZeros) {
  const float least = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(Dequantised<float>(Quantise({least, -least}, 2), 2), Floats({0, 0}));
}

}  // namespace
}  // namespace strata::kernels
