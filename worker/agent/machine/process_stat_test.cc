#include "worker/agent/machine/process_stat.h"

#include <unistd.h>

#include "gtest/gtest.h"

namespace strata::worker {
namespace {

TEST(ProcessStatTest, ANameWithParenthesesAndSpacesIsSkipped) {
  const auto stat = ParseProcessStat(
      "42 (a) b) T) T 1 42 42 0 -1 4194304 100 0 0 0 1 2 0 0 20 0 1 0 987654 1000 5\n");
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->state, 'T');
  EXPECT_EQ(stat->start_time, 987654u);
}

TEST(ProcessStatTest, WhatIsNoSuchTextIsNothing) {
  EXPECT_FALSE(ParseProcessStat("").has_value());
  EXPECT_FALSE(ParseProcessStat("42 (a) R 1 2 3").has_value());
  EXPECT_FALSE(ParseProcessStat("42 (a").has_value());
  EXPECT_FALSE(ParseProcessStat("42 (a) T 1 42 42 0 -1 4194304 100 0 0 0 1 2 0 0 20 0 1 0 x 1000")
                   .has_value());
}

TEST(ProcessStatTest, ThisProcessIsThereAndAnImpossibleOneIsNot) {
  const auto own = ReadProcessStat(getpid());
  ASSERT_TRUE(own.has_value());
  EXPECT_GT(own->start_time, 0u);
  EXPECT_FALSE(ReadProcessStat(-1).has_value());
}

TEST(ProcessStatTest, AThreadsStateIsFoundAndThatOfAnImpossibleProcessIsNot) {
  EXPECT_TRUE(HasThreadInState(getpid(), 'R'));  // the one that asks
  EXPECT_FALSE(HasThreadInState(getpid(), 'T'));
  EXPECT_FALSE(HasThreadInState(-1, 'R'));
}

}  // namespace
}  // namespace strata::worker
