#include "controller/access/refusal_meter.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace strata::controller {
namespace {

TEST(RefusalMeter, ABurstThenOnePerSecondAndTheOthersAreCounted) {
  RefusalMeter meter;
  for (int i = 0; i < RefusalMeter::kBurst; ++i) EXPECT_EQ(meter.Admit("users/a", 5), 0);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(meter.Admit("users/a", 5.5), std::nullopt);
  EXPECT_EQ(meter.Admit("users/a", 6), 7);
  EXPECT_EQ(meter.Admit("users/a", 6.5), std::nullopt);
  EXPECT_EQ(meter.Admit("users/a", 7), 1);
}

TEST(RefusalMeter, CallersHaveAllowancesOfTheirOwn) {
  RefusalMeter meter;
  for (int i = 0; i < 100; ++i) meter.Admit("users/a", 1);
  EXPECT_EQ(meter.Admit("users/a", 1), std::nullopt);
  EXPECT_EQ(meter.Admit("users/b", 1), 0);
}

TEST(RefusalMeter, AnAllowanceGrowsNoFurtherThanTheBurst) {
  RefusalMeter meter;
  meter.Admit("users/a", 1);
  int recorded = 0;
  for (int i = 0; i < 100; ++i) recorded += meter.Admit("users/a", 10'000).has_value();
  EXPECT_EQ(recorded, RefusalMeter::kBurst);
}

TEST(RefusalMeter, ManyCallersAreRememberedNoMoreThanSoMany) {
  RefusalMeter meter;
  for (int i = 0; i < 100; ++i) meter.Admit("users/loud", 1e6);
  for (size_t i = 0; i < 2 * RefusalMeter::kMostCallers; ++i) {
    EXPECT_EQ(meter.Admit(absl::StrCat("users/", i), static_cast<double>(i)), 0);
  }
  EXPECT_EQ(meter.Admit("users/loud", 1e6), std::nullopt);  // the newest one is not forgotten
}

}  // namespace
}  // namespace strata::controller
