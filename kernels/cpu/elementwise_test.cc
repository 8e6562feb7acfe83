#include "kernels/elementwise.h"

#include <bit>
#include <limits>

#include "kernels/cpu/simd.h"
#include "kernels/cpu/test_util.h"
#include "kernels/reference/elementwise.h"

namespace strata::kernels {
namespace {

namespace simd = STRATA_ISA::simd;

using testing::Doubles;
using testing::Floats;

constexpr int64_t kCounts[] = {0, 1, 7, 8, 9, 4095, 4096, 4097, 50001};

TEST(Elementwise, OperationsEqualTheirDefinitions) {
  for (const int64_t count : kCounts) {
    const Floats src = testing::Random(count, 1), dst = testing::Random(count, 2);
    const Floats result = testing::RunWithThreads([&](const Context& c) {
      Floats sum = dst, copy = dst, zero = dst, fill = dst, scaled = dst;
      Add(c, count, src.data(), sum.data());
      Copy(c, count, src.data(), copy.data());
      Zero(c, count, zero.data());
      Fill(c, count, 3.5f, fill.data());
      Scale(c, count, -0.3f, scaled.data());
      return testing::Concat({sum, copy, zero, fill, scaled});
    });
    Floats sum = dst, scaled = dst;
    for (int64_t i = 0; i < count; ++i) {
      sum[i] += src[i];  // one rounding, so the bits are known
      scaled[i] *= -0.3f;
    }
    EXPECT_TRUE(testing::SameBits(
        result, testing::Concat({sum, src, Floats(count, 0.0f), Floats(count, 3.5f), scaled})));
    const Doubles exact = reference::Add(testing::Widen(dst), testing::Widen(src));
    testing::ExpectClose(sum, exact, 1e-7);
  }
}

TEST(Elementwise, SumOfSquaresIsExactToDoublePrecisionAndTheSameForAnyThreads) {
  for (const int64_t count : kCounts) {
    const Floats x = testing::Random(count, 1, 100);
    const double expected = reference::SumSquares(testing::Widen(x));
    testing::Workspace workspace(SumSquaresWorkspaceBytes(count));
    device::ThreadPool one(1), three(3);
    const double sum = SumSquares({&one}, count, x.data(), workspace.get());
    EXPECT_NEAR(sum, expected, 1e-12 * expected);
    EXPECT_EQ(sum, SumSquares({&three}, count, x.data(), workspace.get()));
  }
}

TEST(Simd, ExpIsAccurateOverItsRange) {
  double worst = 0;
  for (double x = -86.5; x < 88.7; x += 0.00137) {
    alignas(32) float out[8];
    const float rounded = static_cast<float>(x);
    _mm256_store_ps(out, simd::Exp(simd::Set(rounded)));
    const double expected = std::exp(static_cast<double>(rounded));
    worst = std::max(worst, std::abs(out[3] - expected) / expected);
  }
  EXPECT_LT(worst, 1.2e-7);  // one unit in the last place is between 0.6e-7 and 1.2e-7
}

TEST(Simd, ExpOfExtremeValues) {
  alignas(32) float out[8];
  const float infinity = std::numeric_limits<float>::infinity();
  _mm256_store_ps(out, simd::Exp(_mm256_setr_ps(-infinity, infinity, std::nanf(""), 0, -0.0f, 89,
                                                -100, 88.72f)));
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[1], infinity);
  EXPECT_TRUE(std::isnan(out[2]));
  EXPECT_EQ(out[3], 1);
  EXPECT_EQ(out[4], 1);
  EXPECT_EQ(out[5], infinity);
  EXPECT_EQ(out[6], 0);
  EXPECT_NEAR(out[7] / std::exp(double{88.72f}), 1, 1e-6);
}

template <typename T>
void ExpectFlat() {
  for (const int64_t count : kCounts) {
    const std::vector<T> src = testing::RandomOf<T>(count, 1, 20);
    const std::vector<T> dst = testing::RandomOf<T>(count, 2, 20);
    const Floats result = testing::RunWithThreads([&](const Context& c) {
      std::vector<T> sum = dst, copy = dst, scaled = dst, capped = dst, moved = dst;
      Add(c, count, src.data(), sum.data());
      Copy(c, count, src.data(), copy.data());
      Scale(c, count, -0.3f, scaled.data());
      Softcap(c, count, 30, capped.data());
      MoveBlocks(c, {.rows = 1, .width = count, .from_row = count, .to_row = count}, true,
                 src.data(), moved.data());
      EXPECT_TRUE(testing::SameBits(testing::Back(src), testing::Back(copy)));
      EXPECT_TRUE(testing::SameBits(testing::Back(sum), testing::Back(moved)));
      return testing::Concat({testing::Back(sum), testing::Back(scaled), testing::Back(capped)});
    });
    Doubles sum, scaled, capped;
    for (int64_t i = 0; i < count; ++i) {
      const double value = ToFloat(dst[i]);
      sum.push_back(value + ToFloat(src[i]));
      scaled.push_back(value * -0.3f);
      capped.push_back(30 * std::tanh(value / 30));
    }
    testing::ExpectRounded<T>(result, testing::Concat({sum, scaled, capped}), 2e-7);
    testing::Workspace workspace(SumSquaresWorkspaceBytes(count));
    device::ThreadPool pool(3);
    const double expected = reference::SumSquares(testing::WidenOf(src));
    EXPECT_NEAR(SumSquares({&pool}, count, src.data(), workspace.get()), expected,
                1e-12 * expected);
  }
}

TEST(Elementwise, OfEveryType_EqualsItsDefinitionRoundedOnce) {
  ExpectFlat<float>();
  ExpectFlat<BFloat16>();
  ExpectFlat<Float16>();
}

// Eight numbers at a time, and the last few, are rounded as single ones are.
template <typename T>
void ExpectSameRounding() {
  const float infinity = std::numeric_limits<float>::infinity();
  Floats values = {0, -0.0f, infinity, -infinity, 65504, 65519.9f, 65520, 1e-8f, 6e-8f, 3.4e38f};
  for (uint32_t i = 0; i < 4000; ++i) {
    values.push_back(std::bit_cast<float>(0x30000000 + i * 0x3fff1));
  }
  std::vector<T> stored(values.size());
  simd::ForEachVec(static_cast<int64_t>(values.size()), [&](int64_t i, auto lanes) {
    lanes.Store(stored.data() + i, lanes.Load(values.data() + i));
  });
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(stored[i].bits, FromFloat<T>(values[i]).bits) << values[i];
  }
  const std::vector<T> nan(8, FromFloat<T>(std::nanf("")));
  EXPECT_TRUE(std::isnan(simd::Sum(simd::Full{}.Load(nan.data()))));
}

TEST(Simd, NumbersOf16BitsAreRoundedAsSingleOnes) {
  ExpectSameRounding<BFloat16>();
  ExpectSameRounding<Float16>();
}

}  // namespace
}  // namespace strata::kernels
