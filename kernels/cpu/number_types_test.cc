#include "kernels/number_types.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace strata::kernels {
namespace {

// Every number of 16 bits becomes a float that becomes it again.
template <typename T>
void ExpectRoundTrips() {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const T number{static_cast<uint16_t>(bits)};
    const float value = ToFloat(number);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(ToFloat(FromFloat<T>(value)))) << bits;
    } else {
      EXPECT_EQ(FromFloat<T>(value).bits, bits) << value;
    }
  }
}

// Halfway between neighbours goes to the even one, a little more up, a little less down.
template <typename T>
void ExpectNearestTiesToEven(uint16_t last_finite) {
  for (uint32_t bits = 0; bits < last_finite; ++bits) {
    const float low = ToFloat(T{static_cast<uint16_t>(bits)});
    const float high = ToFloat(T{static_cast<uint16_t>(bits + 1)});
    const float middle = low + (high - low) / 2;
    EXPECT_EQ(FromFloat<T>(middle).bits, bits + (bits & 1)) << middle;
    EXPECT_EQ(FromFloat<T>(std::nextafter(middle, high)).bits, bits + 1) << middle;
    EXPECT_EQ(FromFloat<T>(std::nextafter(middle, low)).bits, bits) << middle;
  }
}

TEST(NumberTypesTest, AllBFloat16RoundTrip) { ExpectRoundTrips<BFloat16>(); }
TEST(NumberTypesTest, AllFloat16RoundTrip) { ExpectRoundTrips<Float16>(); }
TEST(NumberTypesTest, BFloat16RoundsToNearest) { ExpectNearestTiesToEven<BFloat16>(0x7f7f); }
TEST(NumberTypesTest, Float16RoundsToNearest) { ExpectNearestTiesToEven<Float16>(0x7bff); }

TEST(NumberTypesTest, KnownNumbers) {
  EXPECT_EQ(FromFloat<BFloat16>(1.0F).bits, 0x3f80);
  EXPECT_EQ(FromFloat<Float16>(1.0F).bits, 0x3c00);
  EXPECT_EQ(FromFloat<Float16>(-65504.0F).bits, 0xfbff);
  EXPECT_EQ(FromFloat<Float16>(65519.0F).bits, 0x7bff);
  EXPECT_EQ(FromFloat<Float16>(65520.0F).bits, 0x7c00);
  EXPECT_EQ(FromFloat<Float16>(0x1p-25F).bits, 0);
  EXPECT_EQ(FromFloat<BFloat16>(std::numeric_limits<float>::max()).bits, 0x7f80);
}

}  // namespace
}  // namespace strata::kernels
