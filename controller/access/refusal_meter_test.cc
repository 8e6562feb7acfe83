#include "controller/access/refusal_meter.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace strata::controller {
namespace {

constexpr bool kKnown = true;
constexpr RefusalMeter::Limits kLimits;

TEST(RefusalMeter, ABurstThenOnePerSecondAndTheOthersAreCounted) {
  RefusalMeter meter(kLimits);
  for (int i = 0; i < kLimits.of_one.burst; ++i) {
    EXPECT_EQ(meter.Admit("users/a", kKnown, 5), 0);
  }
  for (int i = 0; i < 7; ++i) EXPECT_EQ(meter.Admit("users/a", kKnown, 5.5), std::nullopt);
  EXPECT_EQ(meter.Admit("users/a", kKnown, 6), 7);
  EXPECT_EQ(meter.Admit("users/a", kKnown, 6.5), std::nullopt);
  EXPECT_EQ(meter.Admit("users/a", kKnown, 7), 1);
}

TEST(RefusalMeter, CallersHaveAllowancesOfTheirOwn) {
  RefusalMeter meter(kLimits);
  for (int i = 0; i < 100; ++i) meter.Admit("users/a", kKnown, 1);
  EXPECT_EQ(meter.Admit("users/a", kKnown, 1), std::nullopt);
  EXPECT_EQ(meter.Admit("users/b", kKnown, 1), 0);
}

TEST(RefusalMeter, AnAllowanceGrowsNoFurtherThanTheBurst) {
  RefusalMeter meter(kLimits);
  meter.Admit("users/a", kKnown, 1);
  int recorded = 0;
  for (int i = 0; i < 100; ++i) recorded += meter.Admit("users/a", kKnown, 10'000).has_value();
  EXPECT_EQ(recorded, kLimits.of_one.burst);
}

TEST(RefusalMeter, ManyNetworksShareWhatIsRecordedOfCallersWithoutAnIdentity) {
  RefusalMeter meter(kLimits);
  int recorded = 0;
  for (int i = 0; i < 5000; ++i) {
    recorded += meter.Admit(absl::StrCat("10.0.0.", i), !kKnown, 1).has_value();
  }
  EXPECT_EQ(recorded, kLimits.of_unknown.burst);
  EXPECT_EQ(meter.Admit("users/a", kKnown, 1), 5000 - 100 - 1024);  // and those are counted
}

TEST(RefusalMeter, ManyCallersAreRememberedNoMoreThanSoMany) {
  RefusalMeter meter(kLimits);
  for (int i = 0; i < 100; ++i) meter.Admit("users/loud", kKnown, 1e6);
  for (size_t i = 0; i < 2 * TokenBuckets::kMostCallers; ++i) {
    EXPECT_EQ(meter.Admit(absl::StrCat("users/", i), kKnown, static_cast<double>(i)), 0);
  }
  EXPECT_EQ(meter.Admit("users/loud", kKnown, 1e6), std::nullopt);  // the newest is not forgotten
}

}  // namespace
}  // namespace strata::controller
