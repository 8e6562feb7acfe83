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

TEST(MachineMemoryTest, IsKnownHere) {
  const auto memory = ReadMachineMemory();
  ASSERT_TRUE(memory.has_value());
  EXPECT_GT(memory->total_bytes, 64 * common::kMiB);
  EXPECT_LE(memory->available_bytes, memory->total_bytes);
}

TEST(MachineMemoryTest, AvailableAndTotalAreRead) {
  const auto memory =
      ParseMemoryInfo("MemTotal:       2048 kB\nMemFree: 1 kB\nMemAvailable:    1024 kB\n");
  ASSERT_TRUE(memory.has_value());
  EXPECT_EQ(memory->available_bytes, 1024 * 1024);
  EXPECT_EQ(memory->total_bytes, 2048 * 1024);
}

TEST(MachineMemoryTest, WithoutBothThereIsNothing) {
  EXPECT_FALSE(ParseMemoryInfo("MemTotal: 2048 kB\n").has_value());
  EXPECT_FALSE(ParseMemoryInfo("MemTotal: x kB\nMemAvailable: 1 kB\n").has_value());
}

TEST(MachineMemoryTest, WhatFitsExactlyIsAccepted) {
  EXPECT_TRUE(CheckMemory(PlanOf(common::kGiB), 4, 4 * common::kGiB, "this machine has").ok());
}

TEST(MachineMemoryTest, OneByteMoreIsRefusedWithTheArithmetic) {
  const absl::Status status =
      CheckMemory(PlanOf(common::kGiB + 1), 4, 4 * common::kGiB, "this machine has");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      std::string(status.message()),
      ::testing::HasSubstr("4 ranks x 1.00 GiB of host memory = 4.00 GiB, but this machine has"));
}

}  // namespace
}  // namespace strata::worker
