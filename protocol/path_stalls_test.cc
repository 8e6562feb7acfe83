#include "protocol/path_stalls.h"

#include <gtest/gtest.h>

#include <vector>

namespace strata::protocol {
namespace {

struct Busy {
  double reading = 0, writing = 0;
};

v1::StepRecord Record(const std::vector<Busy>& paths) {
  v1::StepRecord record;
  record.add_memory()->set_tier("host");
  v1::TierMemory& ssd = *record.add_memory();
  ssd.set_tier("ssd");
  for (const Busy& busy : paths) {
    v1::PathTraffic& path = *ssd.add_paths();
    path.set_read_seconds(busy.reading);
    path.set_write_seconds(busy.writing);
  }
  return record;
}

void Stall(const char* stream, double seconds, v1::StepRecord& record) {
  v1::Transfer& transfer = *record.add_transfers();
  transfer.set_stream(stream);
  transfer.set_stall_seconds(seconds);
}

TEST(StallsByPath, BelongToThePathsThatAreStillBusy) {
  v1::StepRecord record = Record({{.reading = 2}, {.reading = 6}, {.reading = 4}});
  Stall("ssd-read", 1, record);
  Stall("update-read", 2, record);
  Stall("fetch", 100, record);  // of the link, not of disks
  const std::vector<PathStall> stalls = StallsByPath(record, record.memory(1));
  ASSERT_EQ(stalls.size(), 3u);
  // Of 6 s three paths are busy for 2, two for 2, and one for 2; of each the stall has half.
  EXPECT_NEAR(stalls[0].read, 1.0 / 3, 1e-12);
  EXPECT_NEAR(stalls[1].read, 1.0 / 3 + 0.5 + 1, 1e-12);
  EXPECT_NEAR(stalls[2].read, 1.0 / 3 + 0.5, 1e-12);
  for (const PathStall& stall : stalls) EXPECT_EQ(stall.write, 0);
}

TEST(StallsByPath, ReadsAndWritesAreToldApart) {
  v1::StepRecord record = Record({{.reading = 1, .writing = 5}, {.reading = 1, .writing = 0}});
  Stall("ssd-read", 0.5, record);
  Stall("ssd-write", 0.25, record);
  Stall("update-write", 0.5, record);
  const std::vector<PathStall> stalls = StallsByPath(record, record.memory(1));
  ASSERT_EQ(stalls.size(), 2u);
  EXPECT_NEAR(stalls[0].read, 0.25, 1e-12);
  EXPECT_NEAR(stalls[1].read, 0.25, 1e-12);
  EXPECT_NEAR(stalls[0].write, 0.75, 1e-12);
  EXPECT_NEAR(stalls[1].write, 0, 1e-12);
}

TEST(StallsByPath, WithoutPathsThereAreNoneAndIdleOnesShare) {
  v1::StepRecord none = Record({});
  Stall("ssd-read", 1, none);
  EXPECT_TRUE(StallsByPath(none, none.memory(1)).empty());
  v1::StepRecord idle = Record({{}, {}});
  Stall("ssd-read", 1, idle);
  for (const PathStall& stall : StallsByPath(idle, idle.memory(1)))
    EXPECT_NEAR(stall.read, 0.5, 1e-12);
}

}  // namespace
}  // namespace strata::protocol
