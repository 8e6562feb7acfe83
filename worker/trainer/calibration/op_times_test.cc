#include "worker/trainer/calibration/op_times.h"

#include <gtest/gtest.h>

#include "ops/matmul.h"
#include "ops/op_struct.h"
#include "ops/table.h"

namespace strata::worker {
namespace {

// A product of 2 · 4 · 6 · 5 FLOPs, then a copy.
program::ProgramSet TwoOps() {
  program::ProgramSet set;
  const program::Op product = ops::ToOp(ops::MatMul::Example());
  const program::Op copy = ops::EntryOf(program::OpKind::kCopy).example;
  set.templates.push_back({.ops = {product, copy}});
  program::Instruction call{.label = "call"};
  call.template_index = 0;
  set.programs.push_back({.name = "train", .instructions = {call}});
  return set;
}

TEST(OpTimesTest, MedianOfTheStepsFromTheFirstOn) {
  const program::ProgramSet set = TwoOps();
  OpTimes times;
  times.Add(set,
            {{.number = 1, .step = 0, .begin = 0, .end = 100, .action = 0},
             {.number = 2, .step = 1, .begin = 0, .end = 3, .action = 0},
             {.number = 3, .step = 2, .begin = 0, .end = 1, .action = 0},
             {.number = 4, .step = 3, .begin = 0, .end = 2, .action = 0},
             {.number = 5, .step = 1, .begin = 0, .end = 4, .action = 1},
             {}},  // not recorded
            1);
  v1::RankProfile profile;
  times.Write(profile);
  ASSERT_EQ(profile.ops_size(), 2);
  EXPECT_EQ(profile.ops(0).kind(), Name(program::OpKind::kMatMul));
  EXPECT_DOUBLE_EQ(profile.ops(0).seconds(), 2);
  EXPECT_DOUBLE_EQ(profile.ops(0).flops(), 240);
  EXPECT_EQ(profile.ops(0).shape(0), 4);
  EXPECT_DOUBLE_EQ(profile.ops(1).seconds(), 4);
  program::Rates rates;
  times.SetRates(rates);
  EXPECT_DOUBLE_EQ(rates.flops_per_second, 3 * 240 / 6.0);
  EXPECT_DOUBLE_EQ(rates.memory_bytes_per_second, profile.ops(1).bytes() / 4);
}

}  // namespace
}  // namespace strata::worker
