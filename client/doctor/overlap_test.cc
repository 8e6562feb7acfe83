#include "client/doctor/overlap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strata::client {
namespace {

using testing::HasSubstr;

TEST(Overlap, HiddenCommunicationIsWell) {
  const Finding finding = JudgeOverlap(
      {.cores = 2, .steps = 20, .communication_seconds = 0.8, .exposed_seconds = 0.056});
  EXPECT_EQ(finding.health, Health::kOk);
  EXPECT_EQ(finding.value, "93 % of 0.8 s communication hidden, 2 ranks, 20 steps");
  EXPECT_EQ(finding.advice, "");
}

TEST(Overlap, ExposedCommunicationIsToldWithItsReason) {
  OverlapFacts facts{
      .cores = 1, .steps = 20, .communication_seconds = 0.8, .exposed_seconds = 0.72};
  Finding finding = JudgeOverlap(facts);
  EXPECT_EQ(finding.health, Health::kWarning);
  EXPECT_THAT(finding.value, HasSubstr("10 % of 0.8 s"));
  EXPECT_THAT(finding.advice, HasSubstr("share one core"));
  facts.cores = 2;
  finding = JudgeOverlap(facts);
  EXPECT_EQ(finding.health, Health::kWarning);
  EXPECT_THAT(finding.advice, HasSubstr("other programs"));
}

TEST(Arenas, LockedOnesAreWellAndWhatIsRefusedOrMisplacedIsAdvised) {
  ArenaFacts facts{.bytes = 8 << 20, .locked_bytes = 8 << 20, .huge_bytes = 2 << 20};
  EXPECT_EQ(JudgeArenas(facts).health, Health::kOk);
  EXPECT_EQ(JudgeArenas(facts).value,
            "of 8.00 MiB of a rank: 8.00 MiB locked, 2.00 MiB on huge pages");
  EXPECT_EQ(JudgeArenas(facts).advice, "");
  facts.misplaced_bytes = 0;
  EXPECT_EQ(JudgeArenas(facts).health, Health::kOk);
  EXPECT_THAT(JudgeArenas(facts).value, HasSubstr("0 B on another NUMA node"));
  facts.misplaced_bytes = 4096;
  EXPECT_EQ(JudgeArenas(facts).health, Health::kWarning);
  EXPECT_THAT(JudgeArenas(facts).advice, HasSubstr("numactl"));
  facts.misplaced_bytes.reset();
  facts.lacks = "not locked: raise the limit";
  EXPECT_EQ(JudgeArenas(facts).health, Health::kWarning);
  EXPECT_EQ(JudgeArenas(facts).advice, facts.lacks);
  EXPECT_EQ(JudgeArenas({}).health, Health::kOk);
}

TEST(Overlap, WhatCouldNotBeMeasuredSaysWhy) {
  // In this test's folder there is no worker.
  const OverlapFacts facts = MeasureOverlap();
  EXPECT_THAT(facts.problem, HasSubstr("strata-worker"));
  const Finding finding = JudgeOverlap(facts);
  EXPECT_EQ(finding.health, Health::kWarning);
  EXPECT_THAT(finding.value, HasSubstr("not measured: "));
  EXPECT_THAT(finding.advice, HasSubstr("--quick"));
}

}  // namespace
}  // namespace strata::client
