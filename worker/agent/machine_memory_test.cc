#include "worker/agent/machine_memory.h"

#include <string>

#include "common/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

v1::JobPlan PlanOf(int64_t host_bytes) {
  v1::JobPlan plan;
  v1::TierBytes* const tier = plan.add_predicted();
  tier->set_tier("host");
  tier->set_bytes(host_bytes);
  return plan;
}

TEST(MachineMemoryTest, IsKnownHere) { EXPECT_GT(MachineMemoryBytes(), 64 * common::kMiB); }

TEST(MachineMemoryTest, WhatFitsExactlyIsAccepted) {
  EXPECT_TRUE(CheckMemory(PlanOf(common::kGiB), 4, 4 * common::kGiB).ok());
}

TEST(MachineMemoryTest, OneByteMoreIsRefusedWithTheArithmetic) {
  const absl::Status status = CheckMemory(PlanOf(common::kGiB + 1), 4, 4 * common::kGiB);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("4 ranks x 1.00 GiB of host memory = 4.00 GiB"));
}

TEST(MachineMemoryTest, AnUnknownMachineRefusesNothing) {
  EXPECT_TRUE(CheckMemory(PlanOf(int64_t{1} << 60), 100, 0).ok());
}

}  // namespace
}  // namespace strata::worker
