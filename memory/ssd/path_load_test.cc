#include "memory/ssd/path_load.h"

#include "gtest/gtest.h"

namespace strata::memory {
namespace {

constexpr bool kRead = false, kWrite = true;

TEST(PathLoad, SecondsCountWhileSomethingIsInFlightAndOncePerRequest) {
  PathLoad load;
  load.Begin(kRead, 10);
  load.Begin(kRead, 11);
  load.Begin(kWrite, 12);
  load.End(kRead, 100, 13);
  load.End(kRead, 50, 14);
  load.End(kWrite, 7, 16);
  const PathCounters counters = load.counters(20);
  EXPECT_EQ(counters.bytes_read, 150);
  EXPECT_EQ(counters.bytes_written, 7);
  EXPECT_EQ(counters.read_seconds, 4);
  EXPECT_EQ(counters.write_seconds, 4);
  EXPECT_EQ(counters.busy_seconds, 6);
  EXPECT_EQ(counters.request_seconds, 3 + 3 + 4);
  EXPECT_EQ(counters.most_in_flight, 3);
}

TEST(PathLoad, RequestsInFlightCountUpToNowAndAPeriodsMostBeginsWithThem) {
  PathLoad load;
  load.Begin(kRead, 1);
  load.Begin(kWrite, 1);
  load.Begin(kWrite, 1);
  load.End(kWrite, 1, 2);
  EXPECT_EQ(load.counters(4).busy_seconds, 3);
  EXPECT_EQ(load.counters(4).request_seconds, 3 + 2 * 2);
  EXPECT_EQ(load.counters(4).most_in_flight, 3);
  load.BeginPeriod();
  EXPECT_EQ(load.counters(4).most_in_flight, 2);
  load.End(kRead, 1, 5);
  load.End(kWrite, 1, 5);
  EXPECT_EQ(load.counters(9).busy_seconds, 4);
  EXPECT_EQ(load.counters(9).request_seconds, 3 * 1 + 2 * 3);
}

TEST(PathLoad, AClockReadBeforeAnotherThreadsTakesNothingBack) {
  PathLoad load;
  load.Begin(kRead, 5);
  load.Begin(kRead, 4.5);
  load.End(kRead, 1, 6);
  load.End(kRead, 1, 5.5);
  EXPECT_EQ(load.counters(6).busy_seconds, 1);
  EXPECT_EQ(load.counters(5).request_seconds, 2);
}

}  // namespace
}  // namespace strata::memory
