#include "worker/agent/logic/step_merger.h"

#include "gtest/gtest.h"

namespace strata::worker {
namespace {

v1::StepRecord Report(int64_t step, double loss, int64_t measured, int64_t overhead) {
  v1::StepRecord record;
  record.set_step(step);
  record.set_loss(loss);
  v1::TierMemory* const host = record.add_memory();
  host->set_tier("host");
  host->set_measured_bytes(measured);
  host->set_overhead_bytes(overhead);
  return record;
}

TEST(StepMergerTest, ARecordIsRankZerosWithTheWorstRanksMemory) {
  for (const bool rank_zero_first : {true, false}) {
    StepMerger merger(2, 4);
    const v1::StepRecord zero = Report(5, 1.5, 100, 60), one = Report(5, 99, 90, 10);
    const auto first = merger.Add(rank_zero_first ? 0 : 1, rank_zero_first ? zero : one);
    ASSERT_TRUE(first.ok());
    EXPECT_FALSE(first->has_value());
    const auto second = merger.Add(rank_zero_first ? 1 : 0, rank_zero_first ? one : zero);
    ASSERT_TRUE(second.ok() && second->has_value());
    EXPECT_EQ((*second)->loss(), 1.5);
    ASSERT_EQ((*second)->memory_size(), 1);
    EXPECT_EQ((*second)->memory(0).measured_bytes(), 90);
  }
}

TEST(StepMergerTest, AStepTwiceOrSkippedIsRefused) {
  StepMerger merger(1, 0);
  EXPECT_TRUE(merger.Add(0, Report(1, 1, 0, 0)).ok());
  EXPECT_FALSE(merger.Add(0, Report(1, 1, 0, 0)).ok());
  EXPECT_FALSE(merger.Add(0, Report(3, 1, 0, 0)).ok());
}

}  // namespace
}  // namespace strata::worker
