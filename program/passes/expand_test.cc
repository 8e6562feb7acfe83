#include "program/passes/expand.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::program {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

using After = std::vector<ActionDependency>;
constexpr Stream kCaller = Stream::kCaller, kCompute = Stream::kCompute, kTensor = Stream::kTensor,
                 kSend = Stream::kSend, kHost = Stream::kHost;

// A program of calls, one template each, of ops on the streams given.
struct CallSpec {
  Stream stream;
  std::vector<Stream> ops;
  std::vector<Dependency> dependencies;
};
ExpandedProgram ExpandCalls(ProgramSet& set, const std::vector<CallSpec>& calls) {
  set.programs.push_back({.name = "train"});
  for (const CallSpec& spec : calls) {
    Template tmpl;
    for (const Stream stream : spec.ops) tmpl.ops.push_back({.stream = stream});
    Instruction call{.stream = spec.stream, .dependencies = spec.dependencies};
    call.template_index = static_cast<int>(set.templates.size());
    set.templates.push_back(tmpl);
    set.programs[0].instructions.push_back(call);
  }
  return Expand(set, set.programs[0]);
}
std::vector<After> Dependencies(const std::vector<CallSpec>& calls) {
  ProgramSet set;
  std::vector<After> dependencies;
  for (const Action& action : ExpandCalls(set, calls).actions)
    dependencies.push_back(action.dependencies);
  return dependencies;
}

TEST(ExpandTest, OpsOfOneStreamNeedNoDependencies) {
  EXPECT_THAT(Dependencies({{kCompute, {kCaller, kCaller}, {}}, {kCompute, {kCaller}, {}}}),
              ElementsAre(IsEmpty(), IsEmpty(), IsEmpty()));
}

TEST(ExpandTest, OpOnAnotherStreamStartsAfterTheCallersEarlierOnesAndIsJoined) {
  // 0: caller | 1: caller, 2: tensor | 3: caller
  EXPECT_THAT(Dependencies({{kCompute, {kCaller}, {}},
                            {kCompute, {kCaller, kTensor}, {}},
                            {kCompute, {kCaller}, {}}}),
              ElementsAre(IsEmpty(), IsEmpty(), ElementsAre(ActionDependency{0, 0}),
                          ElementsAre(ActionDependency{2, 0})));
}

TEST(ExpandTest, CallThatLeavesTheCallersStreamEmptyIsStillInOrder) {
  // 0: tensor | 1: send | 2: caller. Each is after the one before, on whatever stream that was.
  EXPECT_THAT(
      Dependencies({{kCompute, {kTensor}, {}}, {kCompute, {kSend}, {}}, {kCompute, {kCaller}, {}}}),
      ElementsAre(ElementsAre(ActionDependency{2, 1}), ElementsAre(ActionDependency{0, 0}),
                  ElementsAre(ActionDependency{1, 0})));
}

TEST(ExpandTest, ForkWaitsForWhatTheCallBeforeLeftOnOtherStreams) {
  // 0: caller, 1: tensor | 2: caller, 3: send: the send waits for 0 and for 1.
  EXPECT_THAT(Dependencies({{kCompute, {kCaller, kTensor}, {}}, {kCompute, {kCaller, kSend}, {}}}),
              ElementsAre(ElementsAre(ActionDependency{3, 1}),
                          UnorderedElementsAre(ActionDependency{2, 1}, ActionDependency{3, 1}),
                          ElementsAre(ActionDependency{1, 0}),
                          UnorderedElementsAre(ActionDependency{0, 0}, ActionDependency{1, 0})));
}

TEST(ExpandTest, CallAtTheEndIsJoinedByTheStepsBeginning) {
  // 0: caller | 1: tensor. In the next step 0 waits for 1, as 1 waits for 0.
  EXPECT_THAT(
      Dependencies({{kCompute, {kCaller}, {}}, {kCompute, {kTensor}, {}}}),
      ElementsAre(ElementsAre(ActionDependency{1, 1}), ElementsAre(ActionDependency{0, 0})));
}

TEST(ExpandTest, ForkAtTheBeginningWaitsForTheLastStep) {
  // 0: tensor | 1: caller
  EXPECT_THAT(
      Dependencies({{kCompute, {kTensor}, {}}, {kCompute, {kCaller}, {}}}),
      ElementsAre(ElementsAre(ActionDependency{1, 1}), ElementsAre(ActionDependency{0, 0})));
}

TEST(ExpandTest, StreamWithOneCallFollowsItselfFromStepToStep) {
  // 0: tensor, 1: send, neither on the caller's stream.
  EXPECT_THAT(
      Dependencies({{kCompute, {kTensor, kSend}, {}}}),
      ElementsAre(ElementsAre(ActionDependency{1, 1}), ElementsAre(ActionDependency{0, 1})));
}

TEST(ExpandTest, DependenciesHoldForTheFirstActionOnEachStreamAndMeanTheLastOnEach) {
  // 0: caller, 1: tensor, 2: tensor | host call after it: 3: caller, 4: send, 5: caller
  EXPECT_THAT(Dependencies({{kCompute, {kCaller, kTensor, kTensor}, {}},
                            {kHost, {kCaller, kSend, kCaller}, {{0, 0}}}}),
              ElementsAre(ElementsAre(ActionDependency{2, 1}), ElementsAre(ActionDependency{0, 1}),
                          IsEmpty(),
                          UnorderedElementsAre(ActionDependency{0, 0}, ActionDependency{2, 0},
                                               ActionDependency{4, 1}),
                          UnorderedElementsAre(ActionDependency{0, 0}, ActionDependency{2, 0},
                                               ActionDependency{5, 1}),
                          IsEmpty()));
}

TEST(ExpandTest, DependencyOnTheStepBeforeStaysOne) {
  EXPECT_THAT(Dependencies({{kCompute, {kCaller}, {{1, 1}}}, {kHost, {kCaller}, {}}}),
              ElementsAre(ElementsAre(ActionDependency{1, 1}), IsEmpty()));
}

TEST(ExpandTest, OperandsNameTheBoundSlotsAndPlacesInTheFrame) {
  ProgramSet set;
  set.slots.push_back({.name = "weights", .bytes = 512, .persistent = true, .versioned = true});
  Template tmpl{.name = "t",
                .formals = {{.name = "w", .bytes = 128}},
                .locals = {{.name = "x", .bytes = 64}, {.name = "y", .bytes = 64}},
                .local_offsets = {64, 0},
                .frame_bytes = 128};
  tmpl.ops.push_back({.kind = OpKind::kAdd,
                      .operands = {{.slot = 0, .offset = 32, .bytes = 16, .partial = 4},
                                   {.slot = 1, .offset = 8, .bytes = 16, .access = Access::kWrite},
                                   {.slot = 2, .bytes = 64, .access = Access::kAccumulate}}});
  set.templates.push_back(tmpl);
  Program program{.name = "train", .slots = {{.name = "frame", .bytes = 128}}};
  Instruction call{.label = "apply",
                   .operands = {{.slot = 0,
                                 .offset = 256,
                                 .bytes = 128,
                                 .version = 1,
                                 .shard_group = Group::kData,
                                 .shard_stride = 128}},
                   .template_index = 0,
                   .frame = 1};
  program.instructions.push_back(call);
  const ExpandedProgram expanded = Expand(set, program);
  ASSERT_EQ(expanded.actions.size(), 1u);
  const Action& action = expanded.actions[0];
  ASSERT_EQ(action.operands.size(), 3u);
  EXPECT_EQ(action.operands[0].slot, 0);
  EXPECT_EQ(action.operands[0].offset, 288);
  EXPECT_EQ(action.operands[0].bytes, 16);
  EXPECT_EQ(action.operands[0].version, 1);
  EXPECT_EQ(action.operands[0].partial, 4u);
  EXPECT_EQ(action.operands[0].shard_stride, 128);
  EXPECT_EQ(action.operands[1].slot, 1);
  EXPECT_EQ(action.operands[1].offset, 72);
  EXPECT_EQ(action.operands[1].access, Access::kWrite);
  EXPECT_EQ(action.operands[2].offset, 0);
  EXPECT_THAT(action.locals, ElementsAre(-1, 0, 1));
  EXPECT_EQ(expanded.Describe(program, 0), "instruction 0 (apply), op 0 (add)");
}

TEST(ExpandTest, PredicateIsReadByEveryOpOfACall) {
  ProgramSet set;
  set.slots.push_back({.name = "scalars", .bytes = kScalarBytes, .persistent = true});
  set.scalars = 0;
  set.templates.push_back({.ops = {{.stream = kCaller}, {.stream = kTensor}}});
  Program program{.name = "train"};
  program.instructions.push_back({.mechanism = Mechanism::kSignal, .label = "plain"});
  program.instructions.push_back(
      {.template_index = 0, .predicate = Predicate{Scalar::kClipped, true}});
  const ExpandedProgram expanded = Expand(set, program);
  ASSERT_EQ(expanded.actions.size(), 3u);
  EXPECT_FALSE(expanded.actions[0].predicate.has_value());
  EXPECT_THAT(expanded.actions[0].operands, IsEmpty());
  for (const int a : {1, 2}) {
    ASSERT_EQ(expanded.actions[a].operands.size(), 1u);
    const Operand& scalar = expanded.actions[a].operands[0];
    EXPECT_EQ(scalar.slot, 0);
    EXPECT_EQ(scalar.offset, ScalarOffset(Scalar::kClipped));
    EXPECT_EQ(scalar.bytes, 8);
    EXPECT_EQ(scalar.access, Access::kRead);
    EXPECT_TRUE(expanded.actions[a].predicate->negated);
  }
}

TEST(ExpandTest, CollectiveOpsBecomeCollectives) {
  ProgramSet set;
  Op op{.kind = OpKind::kCollective, .stream = kTensor};
  op.communication = {.op = CollectiveOp::kAllReduce, .group = Group::kTensor, .bytes = 64};
  set.templates.push_back({.ops = {op}});
  Program program{.name = "train"};
  program.instructions.push_back({.template_index = 0});
  const ExpandedProgram expanded = Expand(set, program);
  ASSERT_EQ(expanded.actions.size(), 1u);
  EXPECT_EQ(expanded.actions[0].mechanism, Mechanism::kCollective);
  EXPECT_EQ(expanded.actions[0].communication.group, Group::kTensor);
  EXPECT_EQ(expanded.actions[0].stream, kTensor);
  EXPECT_TRUE(expanded.actions[0].is_communication());
}

}  // namespace
}  // namespace strata::program
