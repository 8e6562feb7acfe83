#include "worker/agent/machine/machine_memory.h"

#include <string>

#include "common/units.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

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

}  // namespace
}  // namespace strata::worker
