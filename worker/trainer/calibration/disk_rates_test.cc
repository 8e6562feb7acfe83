#include "worker/trainer/calibration/disk_rates.h"

#include <gtest/gtest.h>

namespace strata::worker {
namespace {

TEST(DiskRatesTest, EveryDepthHasARateOfEachKind) {
  const auto disk = MeasureDisk(testing::TempDir(), /*quick=*/true);
  ASSERT_TRUE(disk.ok()) << disk.status();
  EXPECT_EQ(disk->directory(), testing::TempDir());
  EXPECT_FALSE(disk->backend().empty());
  EXPECT_EQ(disk->rates_size(), 3);
  for (const v1::DiskRate& rate : disk->rates()) {
    EXPECT_GT(rate.read(), 0);
    EXPECT_GT(rate.write(), 0);
    EXPECT_GT(rate.mixed(), 0);
    EXPECT_GT(rate.depth(), 0);
  }
}

TEST(DiskRatesTest, AFolderThatIsNotThereIsNamed) {
  const auto disk = MeasureDisk("/nowhere/at/all", /*quick=*/true);
  EXPECT_TRUE(absl::IsNotFound(disk.status())) << disk.status();
  EXPECT_NE(disk.status().message().find("/nowhere/at/all"), absl::string_view::npos);
}

}  // namespace
}  // namespace strata::worker
