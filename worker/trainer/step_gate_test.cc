#include "worker/trainer/step_gate.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace strata::worker {
namespace {

TEST(StepGateTest, WithoutAStopEveryStepGoesOn) {
  StepGate gate;
  for (int64_t step = 1; step < 1000; ++step) EXPECT_TRUE(gate.Enter(step));
}

TEST(StepGateTest, ALoopBehindTheOthersCatchesUp) {
  StepGate gate;
  ASSERT_TRUE(gate.Enter(4));
  EXPECT_EQ(gate.Ask(), 4);
  gate.StopAfter(5);
  EXPECT_TRUE(gate.Enter(5));
  EXPECT_FALSE(gate.Enter(6));
}

TEST(StepGateTest, BeforeTheFirstStepTheStartCounts) {
  StepGate gate;
  gate.SetStart(20);
  EXPECT_EQ(gate.Ask(), 20);
  gate.StopAfter(20);
  EXPECT_FALSE(gate.Enter(21));
}

TEST(StepGateTest, ClosingReleasesALoopThatWaits) {
  StepGate gate;
  gate.Ask();
  std::thread loop([&] { EXPECT_FALSE(gate.Enter(1)); });
  gate.Close();
  loop.join();
}

// Ranks that need each other in every step: none may stop where another still goes on.
TEST(StepGateTest, RanksThatRunInLockstepAllStopAfterTheSameStep) {
  for (int round = 0; round < 200; ++round) {
    constexpr int kRanks = 3;
    std::vector<StepGate> gates(kRanks);
    std::vector<std::atomic<int64_t>> entered(kRanks);
    std::atomic<bool> everyone_began{false};
    std::vector<std::thread> loops;
    for (int rank = 0; rank < kRanks; ++rank) {
      loops.emplace_back([&, rank] {
        for (int64_t step = 1; gates[rank].Enter(step); ++step) {
          entered[rank].store(step);
          if (step == 3) everyone_began.store(true);
          for (const auto& other : entered) {  // the step's collective
            while (other.load() < step) std::this_thread::yield();
          }
        }
      });
    }
    while (!everyone_began.load()) std::this_thread::yield();
    int64_t last = 0;
    for (StepGate& gate : gates) last = std::max(last, gate.Ask());
    for (StepGate& gate : gates) gate.StopAfter(last);
    for (std::thread& loop : loops) loop.join();
    for (const auto& step : entered) EXPECT_EQ(step.load(), last);
  }
}

}  // namespace
}  // namespace strata::worker
