#include "model/optimizer/adamw.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/emit/check.h"
#include "model/optimizer/loss_scale.h"
#include "model/optimizer/sgd.h"
#include "model/optimizer/update_template.h"

namespace strata::model {
namespace {

using testing::ElementsAre;
using testing::Pair;

program::ParameterSet MixedSet() {
  program::ParameterSet set;
  set.name = "mixed";
  set.tensors = {{.name = "norm", .shape = {5}},
                 {.name = "a", .shape = {3, 7}, .decay = true},
                 {.name = "b", .shape = {2, 8}, .decay = true},
                 {.name = "bias", .shape = {16}},
                 {.name = "c", .shape = {1, 1}, .decay = true}};
  program::FlattenSet(set, 2);
  return set;
}

TEST(AdamWTest, DecayRanges_SkipVectorsAndJoinNeighbours) {
  // Offsets: norm 0, a 16, b 48, bias 64, c 80.
  EXPECT_THAT(DecayRanges(MixedSet()), ElementsAre(Pair(16, 64), Pair(80, 81)));
}

TEST(AdamWTest, Template_IsWellFormedAndCoversItsRange) {
  const program::ParameterSet set = MixedSet();
  const program::Template made = EmitAdamW(set, {}, {0, set.elements / 2, set.elements / 2});
  EXPECT_TRUE(CheckTemplate(made).ok()) << CheckTemplate(made);
  ASSERT_EQ(made.ops.size(), 1u);
  EXPECT_THAT(made.ops[0].ints, ElementsAre(48, 0, 48, 16, 64, 80, 81));
  EXPECT_THAT(made.ops[0].floats, ElementsAre(0.9, 0.95, 1e-8, 0.1));
  EXPECT_EQ(made.formals.size(), 8u);
  for (const program::Formal& formal : made.formals) {
    EXPECT_EQ(formal.bytes, formal.role == program::Role::kScalars ? 128 : 48 * 4) << formal.name;
  }
}

program::ParameterSet NarrowSet(const NumberFormats& formats) {
  program::ParameterSet set = MixedSet();
  set.type = program::DType::kBF16;
  set.alignment = formats.set_alignment();
  program::FlattenSet(set, 2);
  return set;
}

TEST(AdamWTest, Template_OfOtherNumbers_IsWellFormed) {
  using program::StateFormat;
  for (const auto state :
       {NumberFormats::State::kF32, NumberFormats::State::kBF16, NumberFormats::State::k8Bit}) {
    for (const StateFormat master : {StateFormat::kF32, StateFormat::kRemainder}) {
      const NumberFormats formats{
          .gradient = program::DType::kBF16, .master = master, .state = state};
      const program::ParameterSet set = NarrowSet(formats);
      const program::Template made =
          EmitAdamW(set, {}, formats, {0, set.elements / 2, set.elements / 2});
      EXPECT_TRUE(CheckTemplate(made).ok()) << CheckTemplate(made);
      // Gradient, scalars, next weights, three states in two versions; the weights are read where
      // the master is what they lack.
      EXPECT_EQ(made.formals.size(), master == StateFormat::kF32 ? 9u : 10u);
      EXPECT_TRUE(
          CheckTemplate(EmitSgd(set, {}, formats, {0, set.elements / 2, set.elements / 2})).ok());
    }
  }
}

TEST(AdamWTest, Template_WhereAllIsF32_IsThePlainOp) {
  const program::ParameterSet set = MixedSet();
  EXPECT_EQ(EmitAdamW(set, {}, NumberFormats{}, {0, set.elements, set.elements}).ops[0].kind,
            program::OpKind::kAdamW);
}

TEST(AdamWTest, DecayRanges_InBlocks_JoinOverTheirPadding) {
  // Offsets: norm 0, a 256, b 512, bias 768, c 1024.
  const program::ParameterSet set = NarrowSet({.state = NumberFormats::State::k8Bit});
  EXPECT_THAT(DecayRanges(set), ElementsAre(Pair(256, 528), Pair(1024, 1025)));
}

TEST(LossScaleTest, Overflows_HalveItAndGoodStepsInARowDoubleIt) {
  LossScale scale;
  EXPECT_EQ(scale.value, 65536);
  scale.Update(false);
  EXPECT_EQ(scale.value, 32768);
  for (int step = 1; step < scale.growth_interval; ++step) scale.Update(true);
  EXPECT_EQ(scale.value, 32768);
  scale.Update(false);  // starts anew
  for (int step = 1; step < scale.growth_interval; ++step) scale.Update(true);
  EXPECT_EQ(scale.value, 16384);
  scale.Update(true);
  EXPECT_EQ(scale.value, 32768);
  EXPECT_EQ(scale.good_steps, 0);
}

}  // namespace
}  // namespace strata::model
