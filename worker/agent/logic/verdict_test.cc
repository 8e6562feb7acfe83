#include "worker/agent/logic/verdict.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

RankEnd Said(v1::Finished::Outcome outcome, const std::string& message, bool echo, int order) {
  RankEnd end;
  end.ended.emplace();
  end.ended->set_outcome(outcome);
  end.ended->set_exit_code(outcome == v1::Finished::FAILED ? 1 : 0);
  end.ended->set_message(message);
  end.ended->set_echo(echo);
  end.order = order;
  return end;
}

RankEnd Died(bool by_us, int order) {
  RankEnd end;
  end.killed_by_us = by_us;
  end.how = "was killed by signal 9 (Killed)";
  end.position = "step 3, 'forward block 1'";
  end.order = order;
  return end;
}

v1::Finished JudgeRanks(std::vector<RankEnd> ends) {
  for (size_t rank = 0; rank < ends.size(); ++rank) ends[rank].name = absl::StrCat("rank ", rank);
  return Judge(ends).finished;
}

TEST(VerdictTest, AllRanksFineIsSuccess) {
  const RankEnd fine = Said(v1::Finished::SUCCEEDED, "", false, 1);
  const v1::Finished finished = JudgeRanks({fine, fine});
  EXPECT_EQ(finished.outcome(), v1::Finished::SUCCEEDED);
  EXPECT_EQ(finished.exit_code(), 0);
}

TEST(VerdictTest, AKilledRankIsTheCauseNotThoseThatMissIt) {
  const v1::Finished finished = JudgeRanks(
      {Said(v1::Finished::FAILED, "connection lost", true, 1), Died(false, 2), Died(true, 3)});
  EXPECT_EQ(finished.outcome(), v1::Finished::FAILED);
  EXPECT_EQ(finished.exit_code(), 1);
  EXPECT_EQ(finished.message(),
            "rank 1 was killed by signal 9 (Killed) in step 3, 'forward block 1'");
}

TEST(VerdictTest, ARankThatSaysWhyGoesBeforeAnEcho) {
  const v1::Finished finished = JudgeRanks({Said(v1::Finished::FAILED, "connection lost", true, 1),
                                            Said(v1::Finished::FAILED, "no space left", false, 2)});
  EXPECT_EQ(finished.message(), "rank 1: no space left");
}

TEST(VerdictTest, OnlyEchoesStillFail) {
  const v1::Finished finished =
      JudgeRanks({Died(true, 2), Said(v1::Finished::FAILED, "connection lost", true, 1)});
  EXPECT_EQ(finished.message(), "rank 1: connection lost");
}

TEST(VerdictTest, OnlyARankThatFailedByItselfIsTheCulprit) {
  const RankEnd echo = Said(v1::Finished::FAILED, "connection lost", true, 1);
  const RankEnd fine = Said(v1::Finished::SUCCEEDED, "", false, 1);
  EXPECT_TRUE(Judge({Died(true, 1), Died(false, 2), echo}).found_culprit());
  EXPECT_FALSE(Judge({Died(true, 1), echo}).found_culprit());
  EXPECT_FALSE(Judge({Died(true, 1), Died(true, 2)}).found_culprit());
  EXPECT_FALSE(Judge({fine}).found_culprit());
}

TEST(VerdictTest, AnOrderlyStopIsInterrupted) {
  const RankEnd stopped = Said(v1::Finished::INTERRUPTED, "", false, 1);
  EXPECT_EQ(JudgeRanks({stopped, stopped}).exit_code(), 130);
}

}  // namespace
}  // namespace strata::worker
