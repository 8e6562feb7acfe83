#include "spec/scalars.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace strata::spec {
namespace {

TEST(ParseCount, WholeNumbersWithAndWithoutSuffix) {
  EXPECT_EQ(*ParseCount("0"), 0);
  EXPECT_EQ(*ParseCount("128"), 128);
  EXPECT_EQ(*ParseCount("-3"), -3);
  EXPECT_EQ(*ParseCount("16k"), 16'000);
  EXPECT_EQ(*ParseCount("16Ki"), 16'384);
  EXPECT_EQ(*ParseCount("1.5M"), 1'500'000);
  EXPECT_EQ(*ParseCount("0.5Ki"), 512);
  EXPECT_EQ(*ParseCount("9223372036854775807"), std::numeric_limits<int64_t>::max());
}

TEST(ParseCount, EverythingElseIsRefused) {
  for (const char* text : {"",
                           "two",
                           "1.5",
                           "0.0001k",
                           "010",
                           "0x10",
                           "1_000",
                           "1e3",
                           "16kk",
                           "16 k",
                           "k",
                           "--1",
                           "9223372036854775808",
                           "99999999999999999999999",
                           "9300P",
                           "10000000T",
                           "1.",
                           ".5",
                           "64KiB",
                           "1.00000000000000000001",
                           "nan"}) {
    EXPECT_FALSE(ParseCount(text).ok()) << text;
  }
}

TEST(ParseSize, BinaryAndDecimalUnits) {
  EXPECT_EQ(*ParseSize("4096"), 4096);
  EXPECT_EQ(*ParseSize("4096B"), 4096);
  EXPECT_EQ(*ParseSize("64KiB"), 65'536);
  EXPECT_EQ(*ParseSize("1.5GiB"), 1'610'612'736);
  EXPECT_EQ(*ParseSize("10GB"), 10'000'000'000);
  EXPECT_EQ(*ParseSize("8191PiB"), int64_t{8191} << 50);
  for (const char* text : {"", "B", "64K", "64kib", "0.3B", "8192PiB", "1.5.5KiB"}) {
    EXPECT_FALSE(ParseSize(text).ok()) << text;
  }
}

TEST(ParseNumber, DecimalAndScientific) {
  EXPECT_EQ(*ParseNumber("1e-3"), 1e-3);
  EXPECT_EQ(*ParseNumber("+0.5"), 0.5);
  EXPECT_EQ(*ParseNumber("-2"), -2.0);
  EXPECT_EQ(*ParseNumber(".5"), 0.5);
}

TEST(ParseNumber, NotFiniteOrNotANumberIsRefused) {
  for (const char* text : {".nan", "nan", "-nan", ".inf", "-.inf", "inf", "Infinity", "1e999", "",
                           "x", "1e", "0x1p3", "1,5", "+-1", "1 "}) {
    EXPECT_FALSE(ParseNumber(text).ok()) << text;
  }
}

TEST(ParseDuration, NumbersWithUnitsTheLargestFirst) {
  EXPECT_EQ(*ParseDuration("30s"), absl::Seconds(30));
  EXPECT_EQ(*ParseDuration("1.5h"), absl::Minutes(90));
  EXPECT_EQ(*ParseDuration("2d1h30m"), absl::Hours(49) + absl::Minutes(30));
  EXPECT_EQ(*ParseDuration("250ms"), absl::Milliseconds(250));
  EXPECT_EQ(*ParseDuration("0"), absl::ZeroDuration());
  for (const char* text : {"", "4", "h", "4 h", "-4h", "4x", "30m1h", "1h1h", "1..5h", "inf",
                           "1e3s", "101y", "40000d", "9999999999999s"}) {
    EXPECT_FALSE(ParseDuration(text).ok()) << text;
  }
}

TEST(DurationText, ReadsBackAsTheSame) {
  for (const char* text : {"30s", "1h30m", "4h", "1.5s", "0s", "250ms", "72h3m0.5s"}) {
    EXPECT_EQ(DurationText(*ParseDuration(text)), text);
  }
}

TEST(ParseFlag, OnlyTrueAndFalse) {
  EXPECT_TRUE(*ParseFlag("true"));
  EXPECT_FALSE(*ParseFlag("false"));
  for (const char* text : {"yes", "True", "1", ""}) EXPECT_FALSE(ParseFlag(text).ok()) << text;
}

TEST(ShortestNumber, ReadsBackAsTheSameDouble) {
  for (const double value : {0.1, 1e-8, 1.0 / 3, 10000.0, 5e-324, 1.7976931348623157e308}) {
    EXPECT_EQ(*ParseNumber(ShortestNumber(value)), value);
  }
  EXPECT_EQ(ShortestNumber(0.001), "0.001");
}

TEST(ParseRange, TakesOneNumberOrTwoInOrder) {
  EXPECT_EQ(*ParseRange("0-11"), std::make_pair(int64_t{0}, int64_t{11}));
  EXPECT_EQ(*ParseRange("3"), std::make_pair(int64_t{3}, int64_t{3}));
  EXPECT_EQ(*ParseRange("3-3"), std::make_pair(int64_t{3}, int64_t{3}));
  for (const char* bad : {"", "-", "-3", "3-", "a", "1-b", "1 - 2", "2-1", "1-2-3", "+1-2",
                          "9999999999", "0-99999999999999999999", "1.5", "0x1"}) {
    EXPECT_FALSE(ParseRange(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace strata::spec
