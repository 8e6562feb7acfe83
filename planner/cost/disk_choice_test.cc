#include "planner/cost/disk_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strata::planner {
namespace {

using testing::HasSubstr;

void AddRate(v1::DiskProfile& disk, int64_t depth, double read, double write, double mixed) {
  v1::DiskRate& rate = *disk.add_rates();
  rate.set_request_bytes(1 << 20);
  rate.set_depth(depth);
  rate.set_read(read);
  rate.set_write(write);
  rate.set_mixed(mixed);
}

v1::Profile TwoDisks() {
  v1::Profile profile;
  v1::DiskProfile& slow = *profile.add_disks();
  slow.set_directory("/a");
  AddRate(slow, 1, 100, 80, 90);
  AddRate(slow, 8, 300, 200, 250);
  v1::DiskProfile& fast = *profile.add_disks();
  fast.set_directory("/a/fast");
  AddRate(fast, 8, 3000, 2000, 2500);
  AddRate(fast, 32, 3000, 2000, 2500);
  return profile;
}

TEST(DiskChoiceTest, TheNearestMeasuredDirectoryCounts_AndOfItTheBestRequests) {
  const auto slow = ChooseDiskRate(TwoDisks(), {"/a/fastest"}, 1);
  ASSERT_TRUE(slow.ok()) << slow.status();
  EXPECT_EQ(slow->depth(), 8);
  EXPECT_EQ(slow->read(), 300);
  const auto fast = ChooseDiskRate(TwoDisks(), {"/a/fast/job"}, 1);
  ASSERT_TRUE(fast.ok()) << fast.status();
  EXPECT_EQ(fast->depth(), 8);  // as fast as with more in flight
  EXPECT_EQ(fast->mixed(), 2500);
}

TEST(DiskChoiceTest, AStripeHasTheSlowestPartsRateAsOftenAsItHasParts_AndRanksShareIt) {
  const auto both = ChooseDiskRate(TwoDisks(), {"/a/x", "/a/fast"}, 4);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->depth(), 8);
  EXPECT_DOUBLE_EQ(both->read(), 300 * 2 / 4.0);
  EXPECT_DOUBLE_EQ(both->write(), 200 * 2 / 4.0);
  EXPECT_DOUBLE_EQ(both->mixed(), 250 * 2 / 4.0);
}

TEST(DiskChoiceTest, ADiskThatWasNotMeasured_IsNamedWithWhatToDo) {
  EXPECT_THAT(ChooseDiskRate(TwoDisks(), {"/a", "/b"}, 1).status().message(),
              HasSubstr("no rates of the disk at /b: strata calibrate --ssd /b"));
  v1::Profile profile = TwoDisks();
  v1::DiskProfile& other = *profile.add_disks();
  other.set_directory("/c");
  AddRate(other, 2, 1, 1, 1);
  EXPECT_THAT(ChooseDiskRate(profile, {"/a", "/c"}, 1).status().message(),
              HasSubstr("different requests"));
}

}  // namespace
}  // namespace strata::planner
