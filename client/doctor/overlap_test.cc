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
