#include "worker/agent/logic/epoch_fence.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

v1::JobEpoch Of(const std::string& name, int64_t number, const std::string& uid) {
  v1::JobEpoch epoch;
  epoch.set_job(name);
  epoch.set_epoch(number);
  epoch.set_uid(uid);
  return epoch;
}

TEST(EpochFenceTest, ANameThatComesAgainIsAnotherJob) {
  EpochFence fence;
  fence.Remember(Of("jobs/a", 9, "u1"));
  EXPECT_FALSE(fence.Check(Of("jobs/a", 9, "u1")).ok());
  EXPECT_FALSE(fence.Check(Of("jobs/a", 3, "u1")).ok());
  EXPECT_TRUE(fence.Check(Of("jobs/a", 10, "u1")).ok());
  EXPECT_TRUE(fence.Check(Of("jobs/a", 1, "u2")).ok());
  EXPECT_FALSE(SameEpoch(Of("jobs/a", 1, "u1"), Of("jobs/a", 1, "u2")));
  EXPECT_TRUE(SameEpoch(Of("jobs/a", 1, "u1"), Of("jobs/a", 1, "")));
}

TEST(EpochFenceTest, JobsWithoutAUidAreToldByTheirNames) {
  EpochFence fence;
  fence.Remember(Of("jobs/a", 2, ""));
  EXPECT_FALSE(fence.Check(Of("jobs/a", 2, "")).ok());
  EXPECT_TRUE(fence.Check(Of("jobs/b", 1, "")).ok());
  fence.Forget();
  EXPECT_TRUE(fence.Check(Of("jobs/a", 1, "")).ok());
}

TEST(EpochFenceTest, TheNewestJobIsRememberedAmongAnyNumber) {
  EpochFence fence;
  for (size_t i = 0; i <= EpochFence::kMostJobs; ++i) {
    const v1::JobEpoch epoch = Of("jobs/a", 1, absl::StrCat("u", EpochFence::kMostJobs * 9 - i));
    fence.Remember(epoch);
    ASSERT_FALSE(fence.Check(epoch).ok());
  }
}

TEST(CheckPrepareTest, WhatCanNeverBeRightIsInvalid) {
  v1::PrepareEpoch good;
  *good.mutable_epoch() = Of("jobs/a", 1, "u");
  good.set_directory("/d");
  good.set_ranks(2);
  good.add_own(1);
  EXPECT_TRUE(CheckPrepare(good, 1, {}).ok());
  const auto invalid = [&](auto change) {
    v1::PrepareEpoch bad = good;
    change(bad);
    return absl::IsInvalidArgument(CheckPrepare(bad, 1, {}));
  };
  EXPECT_TRUE(invalid([](auto& p) { p.mutable_epoch()->set_job("jobs/../x"); }));
  EXPECT_TRUE(invalid([](auto& p) { p.mutable_epoch()->set_uid("../x"); }));
  EXPECT_TRUE(invalid([](auto& p) { p.mutable_epoch()->set_epoch(0); }));
  EXPECT_TRUE(invalid([](auto& p) { p.set_directory("d"); }));
  EXPECT_TRUE(invalid([](auto& p) { p.add_own(0); }));
  EXPECT_TRUE(invalid([](auto& p) { p.set_own(0, 2); }));
}

}  // namespace
}  // namespace strata::worker
