#include "memory/arena.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "common/status_macros.h"
#include "common/units.h"
#include "device/cpu_device.h"
#include "gtest/gtest.h"
#include "memory/process_memory.h"

namespace strata::memory {
namespace {

using common::kMiB;

device::CpuDevice& Cpu() {
  static device::CpuDevice device;
  return device;
}

absl::StatusOr<Arena> Create(int64_t bytes) {
  ASSIGN_OR_RETURN(Arena arena, Arena::Reserve(&Cpu(), device::Memory::kHost, bytes));
  RETURN_IF_ERROR(arena.Commit());
  return arena;
}

TEST(Arena, IsZeroedPageAlignedAndOfWholePages) {
  auto arena = Create(10000);
  ASSERT_TRUE(arena.ok()) << arena.status();
  EXPECT_EQ(arena->bytes(), 3 * kPageBytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena->data()) % kPageBytes, 0u);
  EXPECT_TRUE(std::all_of(arena->data(), arena->data() + arena->bytes(),
                          [](std::byte b) { return b == std::byte{0}; }));
  std::fill(arena->data(), arena->data() + arena->bytes(), std::byte{7});
}

TEST(Arena, OfNoBytesHasNoMemory) {
  auto arena = Create(0);
  ASSERT_TRUE(arena.ok());
  EXPECT_EQ(arena->bytes(), 0);
  EXPECT_EQ(arena->data(), nullptr);
}

TEST(Arena, RefusesNegativeSizes) {
  EXPECT_EQ(Create(-1).status().code(), absl::StatusCode::kInvalidArgument);
}

absl::StatusOr<Arena> CreateFixed(int64_t bytes) {
  ASSIGN_OR_RETURN(Arena arena, Arena::Reserve(&Cpu(), device::Memory::kHost, bytes, true));
  RETURN_IF_ERROR(arena.Commit());
  return arena;
}

TEST(Arena, ThatIsFixedSaysWhereItsPagesLie) {
  auto arena = CreateFixed(8 * kMiB);
  ASSERT_TRUE(arena.ok()) << arena.status();
  EXPECT_TRUE(std::all_of(arena->data(), arena->data() + arena->bytes(),
                          [](std::byte b) { return b == std::byte{0}; }));
  const PageReport pages = arena->pages();
  EXPECT_EQ(pages.bytes, 8 * kMiB);
  EXPECT_TRUE(pages.locked_bytes == pages.bytes || !pages.lacks.empty());
  EXPECT_GE(pages.huge_bytes, 0);
  EXPECT_LE(pages.huge_bytes, pages.bytes);
  EXPECT_LE(pages.misplaced_bytes, pages.bytes);
  if (pages.node < 0) {
    EXPECT_EQ(pages.misplaced_bytes, 0);
  }
  const Arena moved = *std::move(arena);
  EXPECT_EQ(moved.pages().bytes, 8 * kMiB);
}

TEST(Arena, ThatIsNotFixedIsNotLookedAt) {
  auto arena = Create(8 * kMiB);
  ASSERT_TRUE(arena.ok()) << arena.status();
  EXPECT_EQ(arena->pages().bytes, 0);
}

// Like a process of a user who has no such right. In a child, which alone loses it.
TEST(Arena, WithoutTheRightToLockItSaysSoAndGoesOn) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none{0, 0};
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct rights[2] = {};
    if (setrlimit(RLIMIT_MEMLOCK, &none) != 0 || syscall(SYS_capset, &header, rights) != 0) {
      _exit(2);
    }
    const auto arena = CreateFixed(kMiB);
    const bool told = arena.ok() && arena->pages().locked_bytes == 0 &&
                      arena->pages().lacks.find("not locked") != std::string::npos;
    _exit(told ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// A tier on disk has more of them than the machine has memory.
TEST(Arena, AddressesAloneNeedNoMemory) {
  auto arena = Arena::Reserve(&Cpu(), device::Memory::kHost, int64_t{16} << 40);
  ASSERT_TRUE(arena.ok()) << arena.status();
  EXPECT_NE(arena->data(), nullptr);
}

TEST(Arena, NamesTheSizeWhenThereIsNoRoom) {
  const int64_t bytes = int64_t{1} << 60;
  const absl::Status status = Create(bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("1152921504606846976 bytes"), absl::string_view::npos) << status;
}

TEST(Arena, MovingPassesTheMemoryOn) {
  auto arena = Create(kPageBytes);
  ASSERT_TRUE(arena.ok());
  std::byte* data = arena->data();
  Arena other = *std::move(arena);
  EXPECT_EQ(other.data(), data);
  Arena third;
  third = std::move(other);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.bytes(), kPageBytes);
}

TEST(Arena, ReservedBytesAreNotThereYet) {
  auto before = ReadProcessMemory();
  auto arena = Arena::Reserve(&Cpu(), device::Memory::kHost, 100 * kMiB);
  ASSERT_TRUE(arena.ok()) << arena.status();
  auto reserved = ReadProcessMemory();
  ASSERT_TRUE(before.ok() && reserved.ok());
  EXPECT_LT(reserved->resident_bytes - before->resident_bytes, 2 * kMiB);
}

TEST(Arena, IsResidentAsSoonAsItExistsAndGoneWithIt) {
  const int64_t bytes = 101 * kMiB + 3 * kPageBytes;
  const int64_t slack = 2 * kMiB;  // per-thread counters, page tables of nobody's
  auto before = ReadProcessMemory();
  ASSERT_TRUE(before.ok()) << before.status();
  {
    auto arena = Create(bytes);
    ASSERT_TRUE(arena.ok()) << arena.status();
    auto with = ReadProcessMemory();
    ASSERT_TRUE(with.ok());
    EXPECT_NEAR(with->resident_bytes - before->resident_bytes, bytes, slack);
    EXPECT_GE(with->high_water_bytes, with->resident_bytes - slack);
  }
  auto after = ReadProcessMemory();
  ASSERT_TRUE(after.ok());
  EXPECT_NEAR(after->resident_bytes, before->resident_bytes, slack);
}

TEST(ProcessMemory, ResetMakesTheHighWaterMarkForgetOrSaysThatItCannot) {
  { ASSERT_TRUE(Create(64 * kMiB).ok()); }
  auto high = ReadProcessMemory();
  ASSERT_TRUE(high.ok());
  ASSERT_GE(high->high_water_bytes - high->resident_bytes, 60 * kMiB);
  const absl::Status reset = ResetHighWater();
  auto now = ReadProcessMemory();
  ASSERT_TRUE(now.ok());
  if (reset.ok()) {
    EXPECT_NEAR(now->high_water_bytes, now->resident_bytes, 2 * kMiB);
  } else {
    EXPECT_TRUE(absl::IsPermissionDenied(reset) || absl::IsUnavailable(reset)) << reset;
    EXPECT_GE(now->high_water_bytes, high->high_water_bytes - 2 * kMiB);
  }
}

}  // namespace
}  // namespace strata::memory
