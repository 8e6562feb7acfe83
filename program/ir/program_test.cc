#include "program/ir/program.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace strata::program {
namespace {

TEST(PlacementTest, VersionsAlternateBetweenCopies) {
  const Placement twice{.offset = 100, .copies = 2, .stride = 64};
  EXPECT_EQ(twice.at(0, 0), 100);
  EXPECT_EQ(twice.at(0, 1), 164);
  EXPECT_EQ(twice.at(1, 0), 164);  // the next step's own is what this step wrote
  EXPECT_EQ(twice.at(1, 1), 100);
  EXPECT_EQ(twice.at(1000000000001, 0), 164);
  const Placement once{.offset = 100, .stride = 64};
  EXPECT_EQ(once.at(7, 1), 100);
}

TEST(ProgramSetTest, SlotsAreNumberedThrough) {
  ProgramSet set;
  set.slots = {{.name = "shared"}};
  set.placements = {{.offset = 1}};
  set.programs = {{.name = "train", .slots = {{.name = "own"}}, .placements = {{.offset = 2}}}};
  EXPECT_EQ(set.slot(set.programs[0], 0).name, "shared");
  EXPECT_EQ(set.slot(set.programs[0], 1).name, "own");
  EXPECT_EQ(set.placement(set.programs[0], 0).offset, 1);
  EXPECT_EQ(set.placement(set.programs[0], 1).offset, 2);
  EXPECT_EQ(set.find("train"), &set.programs[0]);
  EXPECT_EQ(set.find("decode"), nullptr);
}

TEST(ProgramTest, AdvancesVersionsWhenItNamesTheNextOne) {
  Program program;
  program.instructions.push_back({.operands = {{.slot = 0}}});
  EXPECT_FALSE(AdvancesVersions(program));
  program.instructions.push_back({.operands = {{.slot = 0, .version = 1}}});
  EXPECT_TRUE(AdvancesVersions(program));
}

TEST(FlattenSetTest, TensorsAreAlignedAndTheWholeDividesIntoAlignedRanges) {
  ParameterSet set{.tensors = {{.shape = {3, 5}}, {.shape = {16}}, {.shape = {}}, {.shape = {7}}}};
  FlattenSet(set, 3);
  EXPECT_EQ(set.tensors[0].offset, 0);
  EXPECT_EQ(set.tensors[1].offset, 16);
  EXPECT_EQ(set.tensors[2].offset, 32);  // a scalar
  EXPECT_EQ(set.tensors[3].offset, 48);
  EXPECT_EQ(set.elements, 96);  // 55, padded to 3 ranges of a multiple of 16
  EXPECT_EQ(set.bytes(), 384);
  EXPECT_EQ(set.parameters(), 15 + 16 + 1 + 7);
  ParameterSet none;
  FlattenSet(none, 4);
  EXPECT_EQ(none.elements, 0);
}

TEST(GroupTest, AttributeOfAnOpGivesTheSameGroup) {
  for (const Group group : kGroups) EXPECT_EQ(Group::FromInt(group.ToInt()), group) << Name(group);
}

TEST(GroupTest, NamesTellGroupsApart) {
  std::set<std::string> names{Name(Group::kNone)};
  for (const Group group : kGroups) names.insert(Name(group));
  EXPECT_EQ(names.size(), 1 + std::size(kGroups));
  EXPECT_EQ(Name(Group{Bit(Axis::kContext) | Group::kData.axes}), "data+context");
}

TEST(PartialTest, ReductionOverAGroupClearsItsAxes) {
  const Partial partial = PartialOver(Group::kData) | PartialOver(Group::kTensor);
  EXPECT_EQ(PartialName(partial), "data and tensor");
  EXPECT_EQ(PartialName(partial & ~PartialOver(Group::kShard)), "replica and tensor");
  EXPECT_EQ(PartialName(partial & ~PartialOver(Group::kData)), "tensor");
  EXPECT_EQ(PartialOver(Group::kNone), 0u);
}

template <typename Enum>
void ExpectDistinctNames(int count) {
  std::set<std::string> names;
  for (int i = 0; i < count; ++i) names.insert(Name(static_cast<Enum>(i)));
  EXPECT_EQ(names.size(), static_cast<size_t>(count)) << *names.begin();
}

TEST(NamesTest, EveryValueHasItsOwn) {
  ExpectDistinctNames<Tier>(kTierCount);
  ExpectDistinctNames<Stream>(kStreamCount + 1);
  ExpectDistinctNames<Axis>(kAxisCount);
  ExpectDistinctNames<Purpose>(kPurposeCount);
  ExpectDistinctNames<SlotClass>(kSlotClassCount);
  ExpectDistinctNames<OpKind>(kOpKindCount);
  ExpectDistinctNames<Role>(static_cast<int>(Role::kAny) + 1);
  ExpectDistinctNames<Scalar>(static_cast<int>(Scalar::kClipped) + 1);
  EXPECT_STREQ(Name(Stream::kCaller), "caller");
  EXPECT_STREQ(Name(static_cast<OpKind>(kOpKindCount - 1)), "collective");
  EXPECT_STREQ(Name(Purpose::kReport), "report");
  EXPECT_STREQ(Name(SlotClass::kStaging), "staging");
}

}  // namespace
}  // namespace strata::program
