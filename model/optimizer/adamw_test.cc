#include "model/optimizer/adamw.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/emit/check.h"

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
  const program::Template made = EmitAdamW(set, {}, set.elements / 2);
  EXPECT_TRUE(CheckTemplate(made).ok()) << CheckTemplate(made);
  ASSERT_EQ(made.ops.size(), 1u);
  EXPECT_THAT(made.ops[0].ints, ElementsAre(48, 16, 64, 80, 81));
  EXPECT_THAT(made.ops[0].floats, ElementsAre(0.9, 0.95, 1e-8, 0.1));
  EXPECT_EQ(made.formals.size(), 8u);
  for (const program::Formal& formal : made.formals) {
    EXPECT_EQ(formal.bytes, formal.role == program::Role::kScalars ? 128 : 48 * 4) << formal.name;
  }
}

}  // namespace
}  // namespace strata::model
