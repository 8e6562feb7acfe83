#include "memory/ssd/write_pacer.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace strata::memory {
namespace {

constexpr int64_t kWritten = 1'000'000;

// A machine that has `window` seconds of each step of `seconds` to write in before the computation
// waits.
struct Machine {
  double seconds = 1, window = 1;
  double disk_rate = 1e12;

  double Waits(double rate) const {
    return std::max(0.0, static_cast<double>(kWritten) / std::min(rate, disk_rate) - window);
  }
  // What a step takes; and what of it it stands for the pace rather than for the disk.
  double Takes(double rate) const { return seconds + Waits(rate == 0 ? disk_rate : rate); }
  double Stalled(double rate) const { return Takes(rate) - Takes(disk_rate); }
};

// The first step's updates are written under the second.
TEST(WritePacer, TheFirstStepsAreNotPacedAndLaterOnesFallToTheMeanRate) {
  WritePacer pacer;
  EXPECT_EQ(pacer.EndStep(0, 1, 0), 0) << "nothing was written yet";
  EXPECT_EQ(pacer.EndStep(kWritten / 4, 2, 0), 0) << "a part";
  EXPECT_EQ(pacer.EndStep(0, 1, 0), 0) << "an evaluation";
  EXPECT_EQ(pacer.EndStep(kWritten, 2, 0), WritePacer::kFirst * kWritten / 2);
  double rate = 0;
  for (int step = 0; step < 20; ++step) rate = pacer.EndStep(kWritten, 2, 0);
  EXPECT_EQ(rate, kWritten / 2.0);
}

TEST(WritePacer, StepsWhoseWritesComeLateArePacedNoSlowerThanTheyNeed) {
  for (const double window : {0.9, 0.5, 0.2, 0.1}) {
    const Machine machine{.window = window};
    WritePacer pacer;
    double rate = 0, last = 0, total_stalled = 0;
    constexpr int kSteps = 500;
    for (int step = 0; step < kSteps; ++step) {
      const double stalled = machine.Stalled(rate);
      if (step >= kSteps / 2) total_stalled += stalled;
      last = rate;
      rate = pacer.EndStep(kWritten, machine.Takes(rate), stalled);
    }
    EXPECT_LE(total_stalled, 0.02 * kSteps / 2) << window;
    EXPECT_LT(last, 2 * kWritten / window) << "paced, " << window;
  }
}

TEST(WritePacer, AStepThatWaitsRaisesTheRateAtOnce) {
  WritePacer pacer;
  double rate = pacer.EndStep(kWritten, 1, 0);
  for (int step = 0; step < 20; ++step) rate = pacer.EndStep(kWritten, 1, 0);
  const double raised = pacer.EndStep(kWritten, 1.5, 0.5);
  EXPECT_EQ(raised, WritePacer::kRise * rate);
  for (int step = 0; step < WritePacer::kHoldSteps; ++step) {
    EXPECT_EQ(pacer.EndStep(kWritten, 1, 0), raised) << step;
  }
  EXPECT_LT(pacer.EndStep(kWritten, 1, 0), raised);
}

TEST(WritePacer, StepsThatTheDiskBoundsArePacedAtTheDisksRate) {
  const Machine machine{.window = 1, .disk_rate = kWritten / 3.0};
  WritePacer pacer;
  double rate = 0;
  for (int step = 0; step < 200; ++step) {
    EXPECT_EQ(machine.Stalled(rate), 0) << step;
    rate = pacer.EndStep(kWritten, machine.Takes(rate), machine.Stalled(rate));
  }
  EXPECT_DOUBLE_EQ(rate, machine.disk_rate);
}

TEST(WritePacer, StepsThatWriteNothingOrOnlyWaitedChangeNothing) {
  WritePacer pacer;
  pacer.EndStep(kWritten, 1, 0);
  const double rate = pacer.EndStep(kWritten, 1, 0);
  EXPECT_GT(rate, 0);
  EXPECT_EQ(pacer.EndStep(0, 5, 0), rate);
  EXPECT_EQ(pacer.EndStep(kWritten, 1, 2), rate);
}

TEST(WritePacer, AStepThatTookLongerLowersTheRateByAFifthAtMost) {
  WritePacer pacer;
  double rate = 0;
  for (int step = 0; step < 20; ++step) rate = pacer.EndStep(kWritten, 1, 0);
  EXPECT_EQ(rate, kWritten);
  EXPECT_EQ(pacer.EndStep(kWritten, 100, 0), WritePacer::kFall * kWritten);
  EXPECT_EQ(pacer.EndStep(kWritten, 1, 0), kWritten);
}

}  // namespace
}  // namespace strata::memory
