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

TEST(StepMergerTest, WhatTheRankWithLessLoadLacksIsKept) {
  for (const bool rank_zero_first : {true, false}) {
    StepMerger merger(2, 4);
    v1::StepRecord zero = Report(5, 1.5, 100, 60), one = Report(5, 99, 90, 80);
    zero.mutable_memory(0)->set_locked_bytes(4096);
    one.mutable_memory(0)->set_locked_bytes(0);
    one.mutable_memory(0)->set_misplaced_bytes(8192);
    one.mutable_memory(0)->set_lacks("mlock");
    ASSERT_TRUE(merger.Add(rank_zero_first ? 0 : 1, rank_zero_first ? zero : one).ok());
    const auto merged = merger.Add(rank_zero_first ? 1 : 0, rank_zero_first ? one : zero);
    ASSERT_TRUE(merged.ok() && merged->has_value());
    const v1::TierMemory& memory = (*merged)->memory(0);
    EXPECT_EQ(memory.measured_bytes(), 100);
    EXPECT_EQ(memory.misplaced_bytes(), 8192);
    EXPECT_EQ(memory.locked_bytes(), 0);
    EXPECT_EQ(memory.lacks(), "mlock");
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
