#include "program/passes/layout.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/readers/verify.h"

namespace strata::program {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kBytes = 128;

Operand Use(int slot, Access access, int version = 0, int64_t offset = 0, int64_t bytes = kBytes) {
  return {.slot = slot, .offset = offset, .bytes = bytes, .access = access, .version = version};
}
Operand Read(int slot, int version = 0) { return Use(slot, Access::kRead, version); }
Operand Write(int slot, int version = 0) { return Use(slot, Access::kWrite, version); }

Instruction Plain(Stream stream, std::vector<Operand> operands) {
  return {.mechanism = Mechanism::kSignal, .stream = stream, .operands = std::move(operands)};
}
Instruction Applied(Instruction instruction) {
  instruction.predicate = Predicate{.scalar = Scalar::kApply};
  return instruction;
}

// Slot 0: scalars; slot 1: versioned state; transient ones from 2 on.
ProgramSet SetOf(std::vector<Instruction> instructions, int transient = 0) {
  ProgramSet set;
  set.scalars = 0;
  set.slots = {{.name = "scalars", .bytes = kScalarBytes, .persistent = true},
               {.name = "state", .bytes = kBytes, .persistent = true, .versioned = true}};
  Program train{.name = "train", .instructions = std::move(instructions)};
  for (int s = 0; s < transient; ++s)
    train.slots.push_back({.name = "slot " + std::to_string(s), .bytes = kBytes});
  set.programs = {train};
  return set;
}
ProgramSet LaidOut(std::vector<Instruction> instructions, int transient = 0) {
  ProgramSet set = SetOf(std::move(instructions), transient);
  const absl::Status status = LayOut(set);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(Verify({&set}, "train", Mesh{}).ok()) << Verify({&set}, "train", Mesh{});
  return set;
}
const std::vector<Dependency>& PredecessorsOf(const ProgramSet& set, int index) {
  return set.programs[0].instructions[index].dependencies;
}

TEST(LayoutTest, VersionsShareBytesWhenNothingUsesTheOldOneAfterwards) {
  const ProgramSet set = LaidOut({Plain(Stream::kCompute, {Read(1)}),
                                  Applied(Plain(Stream::kCompute, {Read(1), Write(1, 1)}))});
  EXPECT_EQ(set.placements[1].copies, 1);
}

TEST(LayoutTest, VersionsHaveBytesOfTheirOwnWhenTheOldOneIsReadAfterTheUpdate) {
  const ProgramSet set = LaidOut({Applied(Plain(Stream::kCompute, {Read(1), Write(1, 1)})),
                                  Plain(Stream::kCompute, {Read(1)})});
  EXPECT_EQ(set.placements[1].copies, 2);
  EXPECT_EQ(set.placements[1].stride, kBytes);
}

TEST(LayoutTest, UpdateInPiecesSharesBytesUnlessAPieceReadsWhatAnotherHasReplaced) {
  const auto piece = [](int64_t read, int64_t write) {
    return Applied(Plain(Stream::kCompute, {Use(1, Access::kRead, 0, read, kBytes / 2),
                                            Use(1, Access::kWrite, 1, write, kBytes / 2)}));
  };
  const int64_t half = kBytes / 2;
  EXPECT_EQ(LaidOut({piece(0, 0), piece(half, half)}).placements[1].copies, 1);
  EXPECT_EQ(LaidOut({piece(0, 0), piece(0, half)}).placements[1].copies, 2);
  EXPECT_EQ(LaidOut({piece(0, 0), piece(32, half)}).placements[1].copies, 2);
}

TEST(LayoutTest, UpdateThatDoesNotWaitForTheNormKeepsTheOldVersion) {
  const ProgramSet set = LaidOut({Plain(Stream::kCompute, {Read(1), Write(1, 1)})});
  EXPECT_EQ(set.placements[1].copies, 2);
}

TEST(LayoutTest, UseOnAnotherStreamGetsADependencyAndTheNextStepToo) {
  const ProgramSet set =
      LaidOut({Plain(Stream::kCompute, {Write(2)}), Plain(Stream::kHost, {Read(2)})}, 1);
  EXPECT_THAT(PredecessorsOf(set, 1), ElementsAre(Dependency{0, 0}));
  EXPECT_THAT(PredecessorsOf(set, 0), ElementsAre(Dependency{1, 1}));
}

TEST(LayoutTest, ImpliedDependenciesAreLeftOut) {
  const ProgramSet set = LaidOut(
      {Plain(Stream::kCompute, {Write(2)}), Plain(Stream::kHost, {Use(2, Access::kAccumulate)}),
       Plain(Stream::kTensor, {Read(2)}), Plain(Stream::kCompute, {Read(2)})},
      1);
  EXPECT_THAT(PredecessorsOf(set, 2), ElementsAre(Dependency{1, 0}));
  EXPECT_THAT(PredecessorsOf(set, 3), ElementsAre(Dependency{1, 0}));
}

TEST(LayoutTest, SlotsOnTheSameBytesAreOrdered) {
  const ProgramSet set =
      LaidOut({Plain(Stream::kCompute, {Write(2)}), Plain(Stream::kHost, {Read(2)}),
               Plain(Stream::kTensor, {Write(3)})},
              2);
  EXPECT_EQ(set.programs[0].placements[0], set.programs[0].placements[1]);
  EXPECT_THAT(PredecessorsOf(set, 2), ElementsAre(Dependency{1, 0}));
}

TEST(LayoutTest, AlternatingVersionsNeedNoDependencyOlderThanOneStep) {
  // A snapshot of the next version drains on its own stream.
  const ProgramSet set = LaidOut(
      {Plain(Stream::kCompute, {Read(1), Write(1, 1)}), Plain(Stream::kEvict, {Read(1, 1)})});
  for (const Instruction& instruction : set.programs[0].instructions) {
    for (const Dependency& dependency : instruction.dependencies)
      EXPECT_LE(dependency.steps_back, 1);
  }
  EXPECT_THAT(PredecessorsOf(set, 0), ElementsAre(Dependency{1, 1}));
}

TEST(LayoutTest, AlignmentsAreKeptEvenAboveAPage) {
  ProgramSet set = SetOf({Plain(Stream::kCompute, {Write(2), Write(3)})}, 2);
  set.programs[0].slots[1].alignment = 1 << 16;
  ASSERT_TRUE(LayOut(set).ok());
  EXPECT_EQ(set.programs[0].placements[1].offset % (1 << 16), 0);
  EXPECT_TRUE(Verify({&set}, "train", Mesh{}).ok()) << Verify({&set}, "train", Mesh{});
}

TEST(LayoutTest, OpsOnOwnPartsOfALocalAreOrderedWithThoseOnTheirNeighbours) {
  // One op writes the rank's own half, another stream's op then overwrites the second half.
  ProgramSet set;
  set.groups.data = 2;
  const Operand own{.slot = 0,
                    .bytes = 64,
                    .access = Access::kWrite,
                    .shard_group = Group::kData,
                    .shard_stride = 64};
  Template tmpl{.name = "t", .locals = {{.name = "x", .bytes = 128}}};
  tmpl.ops = {{.operands = {own}},
              {.operands = {Use(0, Access::kWrite, 0, 64, 64)}, .stream = Stream::kTensor}};
  set.templates = {tmpl};
  set.programs = {{.name = "train", .instructions = {{.label = "call", .template_index = 0}}}};
  ASSERT_TRUE(LayOut(set).ok());
  EXPECT_THAT(set.templates[0].ops[1].dependencies, ElementsAre(0));
  EXPECT_TRUE(Verify({&set}, "train", {.sizes = {.data = 2}}).ok());
}

TEST(LayoutTest, OpsThatNameTheComputeStreamAreNotTheCallers) {
  ProgramSet set;
  Template tmpl{.name = "t", .locals = {{.name = "x", .bytes = kBytes}}};
  tmpl.ops = {{.operands = {Write(0)}, .stream = Stream::kCompute}, {.operands = {Read(0)}}};
  set.templates = {tmpl};
  set.programs = {
      {.name = "train",
       .instructions = {{.label = "on the host", .stream = Stream::kHost, .template_index = 0}}}};
  ASSERT_TRUE(LayOut(set).ok());
  EXPECT_THAT(set.templates[0].ops[1].dependencies, ElementsAre(0));
  EXPECT_TRUE(Verify({&set}, "train", Mesh{}).ok()) << Verify({&set}, "train", Mesh{});
}

TEST(LayoutTest, RefusesWhatDoesNotExistOrFit) {
  const auto message = [](ProgramSet set) {
    const absl::Status status = LayOut(set);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(message(SetOf({Plain(Stream::kCompute, {Read(2)})})), HasSubstr("no slot 2"));
  EXPECT_THAT(message(SetOf({Plain(Stream::kCompute, {Use(1, Access::kRead, 0, 64, 128)})})),
              HasSubstr("[64, 192) is outside its slot of 128 bytes"));
  Instruction forwards = Plain(Stream::kCompute, {});
  forwards.dependencies = {{1, 0}};
  EXPECT_THAT(message(SetOf({forwards, Plain(Stream::kHost, {})})),
              HasSubstr("depends on instruction 1, 0 steps back"));
  forwards.dependencies = {{0, 2}};
  EXPECT_THAT(message(SetOf({forwards})), HasSubstr("2 steps back"));
  EXPECT_THAT(message(SetOf({{.label = "x", .template_index = 3}})), HasSubstr("no template 3"));
  ProgramSet empty = SetOf({{.label = "x", .template_index = 0}});
  empty.templates.push_back({.name = "nothing"});
  EXPECT_THAT(message(empty), HasSubstr("nothing has no ops"));
  ProgramSet unaligned = SetOf({});
  unaligned.slots[1].alignment = 48;
  EXPECT_THAT(message(unaligned), HasSubstr("no power of two"));
  ProgramSet later = SetOf({});
  later.templates.push_back({.name = "t", .ops = {{.dependencies = {0}}}});
  EXPECT_THAT(message(later), HasSubstr("depends on op 0"));
  ProgramSet no_scalars = SetOf({Applied(Plain(Stream::kCompute, {}))});
  no_scalars.scalars = -1;
  EXPECT_THAT(message(no_scalars), HasSubstr("no scalar block"));
}

// --- The horizon. Slots: 2 a gradient, 3 scratch of its reduction, 4 what later calls work on.

Instruction Call(int tmpl, std::vector<Operand> operands) {
  return {.operands = std::move(operands), .template_index = tmpl};
}
// Template 0 multiplies, 1 only moves.
ProgramSet WithCalls(std::vector<Instruction> instructions, int transient, int horizon) {
  ProgramSet set = SetOf(std::move(instructions), transient);
  for (const double flops : {1e6, 0.0}) {
    set.templates.push_back({.formals = {{.name = "x", .bytes = kBytes}},
                             .ops = {{.operands = {Write(0)}, .flops = flops}}});
  }
  const absl::Status status = LayOut(set, {.horizon_calls = horizon});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(Verify({&set}, "train", Mesh{}).ok()) << Verify({&set}, "train", Mesh{});
  return set;
}
bool Share(const ProgramSet& set, int a, int b) {
  return set.programs[0].placements[a - 2] == set.programs[0].placements[b - 2];
}

TEST(HorizonTest, ScratchOfACollectiveIsKeptFromTheNextCallsThatMultiply) {
  // Slots 4, 5, 6: of calls that move, multiply, multiply.
  const std::vector<Instruction> list = {
      Call(0, {Write(2)}), Plain(Stream::kGradients, {Read(2), Write(3)}), Call(1, {Write(4)}),
      Call(0, {Write(5)}), Call(0, {Write(6)})};
  const ProgramSet without = WithCalls(list, 5, 0);
  EXPECT_TRUE(Share(without, 2, 4) || Share(without, 3, 4));
  EXPECT_THAT(PredecessorsOf(without, 2), ElementsAre(Dependency{1, 0}));
  const ProgramSet one = WithCalls(list, 5, 1);
  EXPECT_THAT(PredecessorsOf(one, 2), IsEmpty());
  EXPECT_THAT(PredecessorsOf(one, 3), IsEmpty());
  const ProgramSet two = WithCalls(list, 5, 2);
  EXPECT_THAT(PredecessorsOf(two, 4), IsEmpty());
  for (const int slot : {4, 5, 6}) EXPECT_FALSE(Share(two, 2, slot) || Share(two, 3, slot));
}

TEST(HorizonTest, TheSameStreamMayHaveTheBytesAtOnce) {
  const ProgramSet set =
      WithCalls({Plain(Stream::kGradients, {Write(2)}), Plain(Stream::kGradients, {Write(3)}),
                 Call(0, {Write(4)}), Call(0, {Write(5)})},
                4, 2);
  EXPECT_TRUE(Share(set, 2, 3));
  EXPECT_TRUE(Share(set, 4, 5));
  EXPECT_FALSE(Share(set, 2, 4));
}

TEST(HorizonTest, WhatMustWaitAnywayMayHaveTheBytes) {
  // Instruction 1 reads what the collective made.
  const ProgramSet set = WithCalls({Plain(Stream::kGradients, {Write(2), Write(3)}),
                                    Plain(Stream::kCompute, {Read(2)}), Call(0, {Write(4)})},
                                   3, 2);
  EXPECT_TRUE(Share(set, 3, 4) || Share(set, 2, 4));
}

// Four updates, whose results (slots 2 to 5) go home, after a product and a call of so many slots.
ProgramSet WithUpdates(int slots_before) {
  std::vector<Instruction> list = {Call(0, {Write(6)}), Plain(Stream::kCompute, {})};
  for (int s = 0; s < slots_before; ++s) list[1].operands.push_back(Write(6 + s));
  for (int update = 0; update < 4; ++update) {
    list.push_back(Call(1, {Write(2 + update)}));
    list.push_back(Plain(Stream::kEvict, {Read(2 + update)}));
  }
  return WithCalls(std::move(list), 4 + slots_before, 1);
}

TEST(HorizonTest, WhatLeavesAfterTheLastProductIsHeldForTwoCalls) {
  const ProgramSet set = WithUpdates(1);
  EXPECT_TRUE(Share(set, 2, 5));
  for (const int other : {3, 4}) EXPECT_FALSE(Share(set, 2, other));
  EXPECT_THAT(PredecessorsOf(set, 8), Contains(Dependency{3, 0}));
  for (const int update : {2, 4, 6}) {
    for (const Dependency& wait : PredecessorsOf(set, update)) EXPECT_EQ(wait.steps_back, 1);
  }
}

TEST(HorizonTest, WhatLeavesAfterTheLastProductIsHeldToTheEndWhereThatCostsNoBytes) {
  const ProgramSet set = WithUpdates(4);
  for (const int a : {2, 3, 4, 5}) {
    for (const int b : {2, 3, 4, 5}) EXPECT_EQ(Share(set, a, b), a == b);
  }
  for (const int update : {2, 4, 6, 8}) {
    for (const Dependency& wait : PredecessorsOf(set, update)) EXPECT_EQ(wait.steps_back, 1);
  }
}

TEST(HorizonTest, OpsBesideTheCallersKeepTheirLocalsToo) {
  // A product whose result another stream takes away, then the next product.
  Template tmpl{.locals = {{.name = "first", .bytes = kBytes}, {.name = "next", .bytes = kBytes}}};
  tmpl.ops = {{.operands = {Write(0)}, .flops = 1e6},
              {.operands = {Read(0)}, .stream = Stream::kTensor},
              {.operands = {Write(1)}, .flops = 1e6}};
  for (const int horizon : {0, 1}) {
    ProgramSet set;
    set.templates = {tmpl};
    set.programs = {{.name = "train", .instructions = {Call(0, {})}}};
    ASSERT_TRUE(LayOut(set, {.horizon_ops = horizon}).ok());
    EXPECT_EQ(set.templates[0].frame_bytes, (horizon + 1) * kBytes);
    EXPECT_EQ(set.templates[0].ops[2].dependencies.empty(), horizon == 1);
  }
}

}  // namespace
}  // namespace strata::program
