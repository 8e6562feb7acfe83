#include "worker/trainer/calibration/drift.h"

#include <gtest/gtest.h>

#include "ops/table.h"

namespace strata::worker {
namespace {

// Collectives take a second.
class OneSecond final : public program::CostModel {
 public:
  double OpSeconds(const program::Op&) const override { return 0; }
  double CollectiveSeconds(const program::Communication&, program::GroupSpan) const override {
    return 1;
  }
  double MessageSeconds(const program::Communication&, program::GroupSpan) const override {
    return 0;
  }
  double TransferSeconds(program::Tier, program::Tier, int64_t) const override { return 0; }
};

// Two calls; a reduction of what the first made, which the second waits for; a call that waits for
// nothing.
program::ProgramSet ReductionBetween() {
  program::ProgramSet set;
  set.groups.data = 2;
  set.templates.push_back({.ops = {ops::EntryOf(program::OpKind::kCopy).example}});
  program::Instruction call{.label = "call"};
  call.template_index = 0;
  program::Instruction reduce{.mechanism = program::Mechanism::kCollective,
                              .purpose = program::Purpose::kReduce,
                              .label = "reduce",
                              .stream = program::Stream::kGradients};
  reduce.communication = {
      .op = program::CollectiveOp::kAllReduce, .group = program::Group::kData, .bytes = 4};
  reduce.dependencies = {{0, 0}};
  program::Instruction after = call;
  after.dependencies = {{1, 0}};
  set.programs.push_back({.name = "train", .instructions = {call, reduce, after, call}});
  return set;
}

// Of a step that begins at `begin`: four seconds of compute, `wait` until the reduction has ended,
// then two and three more.
void AddStep(int64_t step, double begin, double wait, std::vector<TraceRecord>& trace) {
  const auto add = [&](int action, double from, double to) {
    trace.push_back({.number = trace.size() + 1,
                     .step = step,
                     .begin = begin + from,
                     .end = begin + to,
                     .action = action});
  };
  add(0, 0, 4);
  add(1, 4, 4 + wait);
  add(2, 4 + wait, 6 + wait);
  add(3, 7 + wait, 10 + wait);  // a pause for nothing that communicates
}

TEST(DriftTest, WaitsAreThoseForCollectives_WithoutWhatTheseTake_ByComputeSinceTheLast) {
  std::vector<TraceRecord> trace;
  AddStep(0, 0, 100, trace);  // not asked for
  AddStep(1, 1000, 7, trace);
  AddStep(2, 2000, 4, trace);
  trace.emplace_back();  // not recorded
  const std::vector<Waits> waits =
      WaitsForOthers(ReductionBetween(), trace, /*first_step=*/1, /*steps=*/2, OneSecond());
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_DOUBLE_EQ(waits[0].seconds, 6);
  EXPECT_DOUBLE_EQ(waits[0].roots, 2);  // of 4 seconds
  EXPECT_DOUBLE_EQ(waits[1].seconds, 3);
  EXPECT_DOUBLE_EQ(waits[1].roots, 3);  // of 2 + 3 + 4
}

TEST(DriftTest, NothingIsWaitedForWhereTheReductionIsHidden) {
  std::vector<TraceRecord> trace;
  AddStep(0, 0, 0, trace);
  const std::vector<Waits> waits =
      WaitsForOthers(ReductionBetween(), trace, /*first_step=*/0, /*steps=*/1, OneSecond());
  EXPECT_DOUBLE_EQ(waits[0].seconds, 0);
  EXPECT_DOUBLE_EQ(waits[0].roots, 0);
  EXPECT_DOUBLE_EQ(DriftOf(waits), 0);
}

TEST(DriftTest, OneStepThatWaitedLongDoesNotCount) {
  EXPECT_DOUBLE_EQ(DriftOf({{.seconds = 6, .roots = 2},
                            {.seconds = 90, .roots = 2},
                            {},
                            {.seconds = 2, .roots = 2}}),
                   3);
}

TEST(DriftTest, CollectivesThatAreFasterThanAloneGiveNone) {
  EXPECT_DOUBLE_EQ(DriftOf({{.seconds = -1, .roots = 2}}), 0);
}

}  // namespace
}  // namespace strata::worker
