#include "worker/agent/disk_room.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

using ::testing::HasSubstr;

TEST(DiskRoomTest, WhatFitsExactlyIsAcceptedAndOneByteLessIsRefusedWithTheArithmetic) {
  v1::JobPlan plan;
  plan.set_parameters(1024);
  EXPECT_TRUE(CheckRoom(plan, "/data", 12 * 1024).ok());
  const absl::Status status = CheckRoom(plan, "/data", 11 * 1024);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("/data: a checkpoint takes 12.00 KiB, but 11.00 KiB are free there"));
}

TEST(DiskRoomTest, AFolderThatIsNotThereTellsNothing) {
  EXPECT_TRUE(FreeBytes(testing::TempDir()).has_value());
  EXPECT_FALSE(FreeBytes("/no/such/folder").has_value());
}

}  // namespace
}  // namespace strata::worker
