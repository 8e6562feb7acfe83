#include "worker/agent/logic/room.h"

#include <string>

#include "common/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

using ::testing::HasSubstr;

v1::JobPlan PlanOf(int64_t host_bytes) {
  v1::JobPlan plan;
  v1::TierBytes* const tier = plan.add_predicted();
  tier->set_tier("host");
  tier->set_bytes(host_bytes);
  return plan;
}

TEST(RoomTest, ADiskThatFitsExactlyIsAcceptedAndOneByteLessIsRefusedWithTheArithmetic) {
  v1::JobPlan plan;
  plan.set_parameters(1024);
  EXPECT_TRUE(CheckRoom(plan, "/data", 12 * 1024).ok());
  const absl::Status status = CheckRoom(plan, "/data", 11 * 1024);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("/data: a checkpoint takes 12.00 KiB, but 11.00 KiB are free there"));
}

TEST(RoomTest, MemoryThatFitsExactlyIsAccepted) {
  EXPECT_TRUE(
      CheckMemory(PlanOf(common::kGiB), {0, 1, 2, 3}, "cpu", 4 * common::kGiB, "this machine has")
          .ok());
}

TEST(RoomTest, OneByteOfMemoryMoreIsRefusedWithTheArithmetic) {
  const absl::Status status = CheckMemory(PlanOf(common::kGiB + 1), {0, 1, 2, 3}, "cpu",
                                          4 * common::kGiB, "this machine has");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("4 ranks x 1.00 GiB of host memory = 4.00 GiB, but this machine has"));
}

TEST(RoomTest, RanksOfStagesThatNeedLessCountForWhatTheyNeed) {
  v1::JobPlan plan = PlanOf(3 * common::kGiB);
  for (const int64_t gib : {3, 1}) {
    v1::TierBytes* const tier = plan.add_stages()->add_predicted();
    tier->set_tier("host");
    tier->set_bytes(gib * common::kGiB);
  }
  plan.set_stage_stride(2);  // ranks 0 and 1, then 2 and 3
  EXPECT_TRUE(CheckMemory(plan, {2, 3}, "", 2 * common::kGiB, "this machine has").ok());
  EXPECT_TRUE(
      CheckMemory(plan, {0, 1, 2, 3, 4}, "cpu", 11 * common::kGiB, "this machine has").ok());
  const absl::Status status =
      CheckMemory(plan, {1, 2}, "cpu", 4 * common::kGiB - 1, "this machine has");
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("2 ranks x 1.00 GiB to 3.00 GiB of host memory = 4.00 GiB, but"));
}

TEST(RoomTest, TheDeviceOfACpuRankIsTheMachinesMemoryAndThatOfAGpuRankIsNot) {
  v1::JobPlan plan = PlanOf(common::kGiB);
  v1::TierBytes* const tier = plan.add_predicted();
  tier->set_tier("device");
  tier->set_bytes(60 * common::kGiB);
  EXPECT_TRUE(CheckMemory(plan, {0, 1}, "h100", 2 * common::kGiB, "this machine has").ok());
  EXPECT_FALSE(CheckMemory(plan, {0, 1}, "h100", 2 * common::kGiB - 1, "this machine has").ok());
  EXPECT_TRUE(CheckMemory(plan, {0, 1}, "cpu", 122 * common::kGiB, "this machine has").ok());
  EXPECT_FALSE(CheckMemory(plan, {0, 1}, "cpu", 122 * common::kGiB - 1, "this machine has").ok());
}

}  // namespace
}  // namespace strata::worker
