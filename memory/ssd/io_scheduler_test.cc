#include "memory/ssd/io_scheduler.h"

#include <atomic>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "gtest/gtest.h"

namespace strata::memory {
namespace {

using Claim = IoScheduler::Claim;

constexpr int64_t kKiB = 1024, kMiB = 1 << 20;

TEST(IoScheduler, TokensAreBoundedAndADirectionsOwn) {
  const common::ManualClock clock;
  IoScheduler scheduler({.most_bytes = 10, .clock = &clock});
  Claim read{.request_class = SsdClass::kStateRead};
  Claim write{.write = true, .request_class = SsdClass::kStateWrite};
  EXPECT_TRUE(scheduler.TryTake(read, 6));
  EXPECT_FALSE(scheduler.TryTake(read, 5));
  EXPECT_TRUE(scheduler.TryTake(read, 4));
  EXPECT_TRUE(scheduler.TryTake(write, 100));  // alone, however large
  EXPECT_FALSE(scheduler.TryTake(write, 1));
  scheduler.Return(write, 100);
  EXPECT_TRUE(scheduler.TryTake(write, 1));
  EXPECT_FALSE(scheduler.TryTake(read, 1));
  EXPECT_EQ(scheduler.counters().in_flight, 3);
  EXPECT_EQ(scheduler.counters().most_in_flight, 3);
}

TEST(IoScheduler, ALowerClassGetsNothingWhileAHigherOneWaits) {
  const common::ManualClock clock;
  IoScheduler scheduler({.most_bytes = 10, .clock = &clock});
  Claim layer{.request_class = SsdClass::kNextLayerRead};
  Claim state{.request_class = SsdClass::kStateRead};
  Claim checkpoint{.request_class = SsdClass::kCheckpoint};
  EXPECT_TRUE(scheduler.TryTake(checkpoint, 8));
  EXPECT_FALSE(scheduler.TryTake(layer, 8));
  EXPECT_FALSE(scheduler.TryTake(state, 1));  // there is room, for the layer
  EXPECT_FALSE(scheduler.TryTake(checkpoint, 1));
  scheduler.Return(checkpoint, 8);
  EXPECT_FALSE(scheduler.TryTake(checkpoint, 1));
  EXPECT_TRUE(scheduler.TryTake(layer, 8));
  EXPECT_FALSE(scheduler.TryTake(checkpoint, 1));  // the state's turn
  EXPECT_TRUE(scheduler.TryTake(state, 1));
  EXPECT_TRUE(scheduler.TryTake(checkpoint, 1));
  EXPECT_EQ(scheduler.counters().bytes, (std::array<int64_t, kSsdClassCount>{8, 1, 0, 9}));
}

TEST(IoScheduler, WhoGivesUpStandsInNobodysWay) {
  const common::ManualClock clock;
  IoScheduler scheduler({.most_bytes = 10, .clock = &clock});
  Claim state{.request_class = SsdClass::kStateRead};
  Claim checkpoint{.request_class = SsdClass::kCheckpoint};
  EXPECT_TRUE(scheduler.TryTake(checkpoint, 6));
  EXPECT_FALSE(scheduler.TryTake(state, 6));
  EXPECT_FALSE(scheduler.TryTake(checkpoint, 1));
  scheduler.Withdraw(state);
  scheduler.Withdraw(state);  // of a claim that wants nothing: nothing
  EXPECT_TRUE(scheduler.TryTake(checkpoint, 1));
}

// Of each 100 ms that begin at some request, of steady and of irregular writers.
TEST(IoScheduler, PacedWritesStayBelowOneAndAHalfTimesThePlanAndReachIt) {
  for (const double rate : {IoScheduler::kSlowestWriteRate, 1e6, 50e6, 3e9}) {
    for (const double step : {1e-4, 3e-3, 0.02}) {
      common::ManualClock clock;
      IoScheduler scheduler({.most_bytes = kMiB, .write_rate = rate, .clock = &clock});
      Claim claim{.write = true, .request_class = SsdClass::kStateWrite};
      const int64_t request = scheduler.MostWriteBytes(kMiB);
      struct Granted {
        double at;
        int64_t bytes;
      };
      std::vector<Granted> granted;
      double total = 0;
      while (clock.Now() < 1) {
        while (scheduler.TryTake(claim, request)) {
          scheduler.Return(claim, request);
          granted.push_back({clock.Now(), request});
          total += static_cast<double>(request);
        }
        clock.Advance(step);
        if (granted.size() % 7 == 3) clock.Advance(0.03);  // late
      }
      for (size_t first = 0; first < granted.size(); ++first) {
        double bytes = 0;
        for (size_t g = first; g < granted.size() && granted[g].at < granted[first].at + 0.1; ++g) {
          bytes += static_cast<double>(granted[g].bytes);
        }
        ASSERT_LE(bytes, 1.5 * rate * 0.1) << rate << " " << step;
      }
      const auto busiest = static_cast<double>(scheduler.counters().busiest_written_bytes);
      EXPECT_LE(busiest, 1.5 * rate * 0.1) << rate << " " << step;
      EXPECT_GT(busiest, 0);
      if (step == 1e-4) {
        EXPECT_GT(total, 0.5 * rate) << rate;
      }
      EXPECT_LE(total, 1.2 * rate) << rate;
    }
  }
}

TEST(IoScheduler, ReadsAreNotPaced) {
  const common::ManualClock clock;
  IoScheduler scheduler({.most_bytes = 100 * kMiB, .write_rate = 1e6, .clock = &clock});
  Claim read{.request_class = SsdClass::kNextLayerRead};
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(scheduler.TryTake(read, kMiB));
  EXPECT_EQ(scheduler.MostWriteBytes(kMiB), 24 * kKiB);  // whole blocks of 25 ms
  EXPECT_EQ(scheduler.counters().busiest_read_bytes, 100 * kMiB);
  EXPECT_EQ(scheduler.counters().busiest_written_bytes, 0);
}

TEST(IoScheduler, TheBusiestHundredMillisecondsAreTenTenthsInARow) {
  common::ManualClock clock;
  IoScheduler scheduler({.most_bytes = kMiB, .clock = &clock});
  Claim claim{.request_class = SsdClass::kStateRead};
  const auto move = [&](int64_t bytes) {
    EXPECT_TRUE(scheduler.TryTake(claim, bytes));
    scheduler.Return(claim, bytes);
  };
  clock.Advance(0.005);
  move(3);
  clock.Advance(0.05);
  move(4);
  EXPECT_EQ(scheduler.counters().busiest_read_bytes, 7);
  clock.Advance(0.06);
  move(2);  // the first are over
  EXPECT_EQ(scheduler.counters().busiest_read_bytes, 7);
  clock.Advance(1000);
  move(6);
  EXPECT_EQ(scheduler.counters().busiest_read_bytes, 7);
  move(2);
  EXPECT_EQ(scheduler.counters().busiest_read_bytes, 8);
}

TEST(IoScheduler, APeriodForgetsWhatWasBusiest) {
  common::ManualClock clock;
  IoScheduler scheduler({.most_bytes = kMiB, .clock = &clock});
  Claim claim{.write = true};
  const auto move = [&](int64_t bytes) {
    EXPECT_TRUE(scheduler.TryTake(claim, bytes));
    scheduler.Return(claim, bytes);
  };
  move(9);
  clock.Advance(0.05);
  scheduler.BeginPeriod();
  EXPECT_EQ(scheduler.counters().busiest_written_bytes, 0);
  move(1);  // of 100 ms that end in the period
  EXPECT_EQ(scheduler.counters().busiest_written_bytes, 10);
  clock.Advance(1);
  scheduler.BeginPeriod();
  move(2);
  EXPECT_EQ(scheduler.counters().busiest_written_bytes, 2);
}

TEST(IoScheduler, ANewRateHoldsForTheNextRequests) {
  common::ManualClock clock;
  clock.Advance(100);
  IoScheduler scheduler({.most_bytes = 100 * kMiB, .clock = &clock});
  Claim write{.write = true};
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(scheduler.TryTake(write, kMiB));
  EXPECT_EQ(scheduler.MostWriteBytes(kMiB), kMiB);
  scheduler.SetWriteRate(4e6);
  const int64_t request = scheduler.MostWriteBytes(kMiB);
  EXPECT_EQ(request, 24 * 4 * kKiB);
  EXPECT_TRUE(scheduler.TryTake(write, request));
  EXPECT_TRUE(scheduler.TryTake(write, request));
  EXPECT_FALSE(scheduler.TryTake(write, request));
  clock.Advance(1);
  EXPECT_TRUE(scheduler.TryTake(write, request));
  scheduler.SetWriteRate(0);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(scheduler.TryTake(write, kMiB));
  scheduler.SetWriteRate(1);
  EXPECT_EQ(scheduler.write_rate(), IoScheduler::kSlowestWriteRate);
}

TEST(IoScheduler, OnlyThePacesOwnSecondsCountAsPaced) {
  common::ManualClock clock;
  clock.Advance(100);
  IoScheduler scheduler({.most_bytes = kMiB, .write_rate = 8e6, .clock = &clock});
  Claim write{.write = true};
  const int64_t request = 100'000;  // 12.5 ms
  const auto paced = [&] { return scheduler.counters().paced_seconds; };
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(scheduler.TryTake(write, request));
  EXPECT_TRUE(scheduler.TryTake(write, request));  // a burst is over
  EXPECT_EQ(paced(), 0);
  EXPECT_FALSE(scheduler.TryTake(write, request));
  clock.Advance(0.005);
  EXPECT_FALSE(scheduler.TryTake(write, request));
  EXPECT_NEAR(paced(), 0.005, 1e-9);
  clock.Advance(10);  // elsewhere
  EXPECT_TRUE(scheduler.TryTake(write, request));
  EXPECT_NEAR(paced(), 0.0125, 1e-9);
  clock.Advance(1);
  Claim other{.write = true};
  EXPECT_TRUE(scheduler.TryTake(other, kMiB - 4 * request));
  clock.Advance(10);
  EXPECT_FALSE(scheduler.TryTake(write, request)) << "for want of tokens";
  clock.Advance(1);
  scheduler.Return(other, kMiB - 4 * request);
  EXPECT_TRUE(scheduler.TryTake(write, request));
  EXPECT_NEAR(paced(), 0.0125, 1e-9);
}

TEST(IoScheduler, ThreadsThatWaitAreAllServed) {
  const common::MonotonicClock clock;
  IoScheduler scheduler({.most_bytes = 3, .clock = &clock});
  std::atomic<int64_t> in_flight = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      Claim claim{.write = t % 2 == 1, .request_class = static_cast<SsdClass>(t % kSsdClassCount)};
      for (int i = 0; i < 500; ++i) {
        scheduler.Take(claim, 2);
        EXPECT_LE(in_flight += 2, 4);  // of both directions
        in_flight -= 2;
        scheduler.Return(claim, 2);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(scheduler.counters().in_flight, 0);
  EXPECT_LE(scheduler.counters().most_in_flight, 2);
}

}  // namespace
}  // namespace strata::memory
