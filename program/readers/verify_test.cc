#include "program/readers/verify.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/passes/layout.h"

namespace strata::program {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kBytes = 128;

Operand Use(int slot, Access access) { return {.slot = slot, .bytes = kBytes, .access = access}; }
Operand Read(int slot) { return Use(slot, Access::kRead); }
Operand Write(int slot) { return Use(slot, Access::kWrite); }
Instruction Plain(const std::string& label, Stream stream, std::vector<Operand> operands) {
  return {.mechanism = Mechanism::kSignal,
          .label = label,
          .stream = stream,
          .operands = std::move(operands)};
}

// Persistent slots 0 (written by nothing) and 1; transient a (2) and b (3), alive together.
ProgramSet Example() {
  ProgramSet set;
  set.slots = {{.name = "state", .bytes = kBytes, .persistent = true},
               {.name = "table", .bytes = kBytes, .persistent = true}};
  Program train{.name = "train",
                .slots = {{.name = "a", .bytes = kBytes}, {.name = "b", .bytes = kBytes}}};
  train.instructions = {Plain("make a", Stream::kCompute, {Write(2)}),
                        Plain("make b", Stream::kHost, {Read(2), Write(3)}),
                        Plain("use b", Stream::kCompute, {Read(3), Read(1)})};
  set.programs = {train};
  EXPECT_TRUE(LayOut(set).ok());
  EXPECT_TRUE(Verify({&set}, "train", Mesh{}).ok()) << Verify({&set}, "train", Mesh{});
  return set;
}
std::string Refusal(const ProgramSet& set) {
  const absl::Status status = Verify({&set}, "train", Mesh{});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  return std::string(status.message());
}

TEST(VerifyTest, PersistentSlotsThatShareBytesAreRefusedEvenIfTheProgramDoesNotReadThem) {
  ProgramSet set = Example();
  set.placements[0].offset = set.placements[1].offset;
  EXPECT_THAT(Refusal(set), AllOf(HasSubstr("'table'"), HasSubstr("persistent slot 'state'")));
  set = Example();
  set.programs[0].placements[0].offset = set.placements[0].offset;
  EXPECT_THAT(Refusal(set), AllOf(HasSubstr("'a'"), HasSubstr("persistent slot 'state'")));
}

TEST(VerifyTest, SecondCopyThatMeetsAnotherSlotIsRefused) {
  ProgramSet set = Example();
  set.slots[0].versioned = true;
  set.placements[0].copies = 2;
  EXPECT_EQ(set.placements[0].stride, set.placements[1].offset);
  EXPECT_THAT(Refusal(set), HasSubstr("shares bytes with persistent slot 'state'"));
}

TEST(VerifyTest, PlacesOutsideTheArenaOrMisalignedAreRefused) {
  ProgramSet set = Example();
  set.programs[0].placements[1].offset = set.arena(Tier::kHost) - 64;
  EXPECT_THAT(Refusal(set), AllOf(HasSubstr("'b'"), HasSubstr("outside the arena")));
  set = Example();
  set.programs[0].placements[1].offset += 32;
  EXPECT_THAT(Refusal(set), HasSubstr("misaligned"));
  set = Example();
  set.programs[0].placements.pop_back();
  EXPECT_THAT(Refusal(set), HasSubstr("every slot a place"));
}

TEST(VerifyTest, ReferencesToWhatDoesNotExistAreRefusedAndNotFollowed) {
  ProgramSet set = Example();
  set.programs[0].instructions[0].dependencies = {{2, 0}};
  EXPECT_THAT(Refusal(set), HasSubstr("instruction 0 (make a) depends on instruction 2, 0 steps"));
  set.programs[0].instructions[0].dependencies = {{7, 1}};
  EXPECT_THAT(Refusal(set), HasSubstr("instruction 7"));
  set.programs[0].instructions[0].dependencies = {{0, 2}};
  EXPECT_THAT(Refusal(set), HasSubstr("2 steps back"));
  set = Example();
  set.programs[0].instructions[0].operands[0].slot = 4;
  EXPECT_THAT(Refusal(set), HasSubstr("names slot 4"));
  set = Example();
  set.programs[0].instructions[0].mechanism = Mechanism::kCall;
  EXPECT_THAT(Refusal(set), HasSubstr("calls template -1"));
}

TEST(VerifyTest, OperandBeyondItsSlotIsRefused) {
  ProgramSet set = Example();
  set.programs[0].instructions[0].operands[0].offset = 8;
  EXPECT_THAT(Refusal(set), HasSubstr("bytes [8, 136) of 128"));
  set = Example();
  set.programs[0].instructions[0].operands[0].offset = -8;
  EXPECT_THAT(Refusal(set), HasSubstr("bytes [-8, 120) of 128"));
}

TEST(VerifyTest, SlotsOfOneActionOnTheSameBytesAreRefused) {
  // b is written from a, which nothing reads afterwards: only the action itself is disturbed.
  ProgramSet set = Example();
  set.programs[0].placements[1] = set.programs[0].placements[0];
  EXPECT_THAT(Refusal(set),
              AllOf(HasSubstr("make b"), HasSubstr("the same action reads slot 'a'")));
}

TEST(VerifyTest, LocalsOnTheSameBytesAreRefused) {
  ProgramSet set;
  Template tmpl{.name = "t",
                .locals = {{.name = "x", .bytes = kBytes}, {.name = "y", .bytes = kBytes}}};
  tmpl.ops = {{.operands = {Write(0)}}, {.operands = {Write(1)}}, {.operands = {Read(0), Read(1)}}};
  set.templates = {tmpl};
  set.programs = {{.name = "train", .instructions = {{.label = "call", .template_index = 0}}}};
  ASSERT_TRUE(LayOut(set).ok());
  ASSERT_TRUE(Verify({&set}, "train", Mesh{}).ok());
  set.templates[0].local_offsets[1] = set.templates[0].local_offsets[0];
  EXPECT_THAT(Refusal(set),
              AllOf(HasSubstr("op 2"), HasSubstr("overwritten"), HasSubstr("local 1")));
}

TEST(VerifyTest, LocalThatIsReadBeforeItIsWrittenIsRefused) {
  ProgramSet set;
  Template tmpl{.name = "t", .locals = {{.name = "x", .bytes = kBytes}}};
  tmpl.ops = {{.operands = {Use(0, Access::kAccumulate)}}};
  set.templates = {tmpl};
  set.programs = {{.name = "train", .instructions = {{.label = "call", .template_index = 0}}}};
  ASSERT_TRUE(LayOut(set).ok());
  EXPECT_THAT(Refusal(set), HasSubstr("nothing has produced its bytes from 0"));
}

TEST(VerifyTest, FormalsBoundToTheSameBytesOnTwoStreamsAreRefused) {
  ProgramSet set = Example();
  Template tmpl{.name = "t",
                .formals = {{.name = "in", .bytes = kBytes}, {.name = "out", .bytes = kBytes}}};
  tmpl.ops = {{.operands = {Read(0)}}, {.operands = {Write(1)}, .stream = Stream::kTensor}};
  set.templates = {tmpl};
  Instruction call{.label = "both", .operands = {Read(0), Write(0)}, .template_index = 0};
  set.programs[0].instructions.push_back(call);
  ASSERT_TRUE(LayOut(set).ok());
  EXPECT_THAT(Refusal(set), AllOf(HasSubstr("race"), HasSubstr("both"), HasSubstr("'state'")));
}

TEST(VerifyTest, VersionsOfASlotThatHasNoneAreRefused) {
  ProgramSet set = Example();
  set.programs[0].instructions[2].operands[1].version = 1;
  EXPECT_THAT(Refusal(set), HasSubstr("it has no version 1"));
}

TEST(VerifyTest, EveryIndexOfTheWorldIsLookedAt) {
  // Two pipeline stages whose parts meet on the second one only.
  ProgramSet set;
  set.groups.pipeline = 2;
  set.slots = {{.name = "state", .bytes = 2 * kBytes, .persistent = true}};
  Operand own = Write(0);
  own.shard_group = Group::kPipeline;
  own.shard_stride = kBytes;
  Operand second = Read(0);
  second.offset = kBytes;
  set.programs = {{.name = "train",
                   .instructions = {Plain("write own", Stream::kCompute, {own}),
                                    Plain("read second", Stream::kHost, {second})}}};
  ASSERT_TRUE(LayOut(set).ok());
  const Mesh mesh{.sizes = {.pipeline = 2}};
  EXPECT_TRUE(Verify({&set, &set}, "train", mesh).ok());
  for (Instruction& instruction : set.programs[0].instructions) instruction.dependencies.clear();
  EXPECT_TRUE(VerifyRank(set, set.programs[0], 0).ok());
  EXPECT_THAT(std::string(Verify({&set, &set}, "train", mesh).message()),
              AllOf(HasSubstr("shard index 1"), HasSubstr("race")));
}

// A rank's half of the state is updated, then all halves are gathered.
ProgramSet PublishedUpdate() {
  ProgramSet set;
  set.groups.data = 2;
  set.scalars = 0;
  set.slots = {{.name = "scalars", .bytes = kScalarBytes, .persistent = true},
               {.name = "state", .bytes = kBytes, .persistent = true, .versioned = true}};
  Operand own = Read(1);
  own.bytes = own.shard_stride = kBytes / 2;
  own.shard_group = Group::kData;
  Operand next = own;
  next.version = 1;
  Operand whole = Write(1);
  whole.version = 1;
  Instruction use = Plain("use", Stream::kCompute, {Read(1)});
  Instruction update = Plain("update", Stream::kCompute, {own, next});
  update.operands[1].access = Access::kWrite;
  update.predicate = Predicate{Scalar::kApply};
  Instruction gather = Plain("gather", Stream::kParameters, {next, whole});
  gather.mechanism = Mechanism::kCollective;
  gather.communication = {.group = Group::kData, .bytes = own.bytes};
  set.programs = {{.name = "train", .instructions = {use, update, gather}}};
  return set;
}
const Mesh kTwo{.sizes = {.data = 2}};

TEST(VerifyTest, GatherThatAlwaysTakesPlaceNeedsNoSecondCopy) {
  ProgramSet set = PublishedUpdate();
  ASSERT_TRUE(LayOut(set).ok());
  EXPECT_EQ(set.placements[1].copies, 1);
  EXPECT_TRUE(Verify({&set}, "train", kTwo).ok()) << Verify({&set}, "train", kTwo);
  for (const int rank : {0, 1}) EXPECT_TRUE(VerifyStage(set, set.programs[0], kTwo, rank).ok());
}

TEST(VerifyTest, PredicateOnCommunicationIsRefused) {
  ProgramSet set = PublishedUpdate();
  set.programs[0].instructions[2].predicate = Predicate{Scalar::kApply};
  ASSERT_TRUE(LayOut(set).ok());
  const std::string message(Verify({&set}, "train", kTwo).message());
  EXPECT_THAT(message, AllOf(HasSubstr("instruction 2 (gather) communicates"), HasSubstr("apply")));
  // Inside a call too.
  set = PublishedUpdate();
  set.templates = {{.name = "t", .ops = {{.kind = OpKind::kCollective}}}};
  set.programs[0].instructions.push_back(
      {.label = "call", .template_index = 0, .predicate = Predicate{Scalar::kApply}});
  ASSERT_TRUE(LayOut(set).ok());
  EXPECT_THAT(std::string(Verify({&set}, "train", kTwo).message()),
              HasSubstr("(call) communicates"));
}

TEST(VerifyTest, UpdateThatIsNeverLeftOutIsRefusedThoughAGatherPublishesIt) {
  ProgramSet set = PublishedUpdate();
  ASSERT_TRUE(LayOut(set).ok());
  set.programs[0].instructions[1].predicate.reset();
  const std::string message(Verify({&set}, "train", kTwo).message());
  EXPECT_THAT(message, AllOf(HasSubstr("'state'"), HasSubstr("holds version 1, not 0")));
}

TEST(VerifyTest, GatherOfTheNextVersionBeforeItsUpdateIsRefused) {
  ProgramSet set = PublishedUpdate();
  std::swap(set.programs[0].instructions[1], set.programs[0].instructions[2]);
  ASSERT_TRUE(LayOut(set).ok());
  EXPECT_THAT(std::string(Verify({&set}, "train", kTwo).message()),
              HasSubstr("nothing has produced its bytes"));
}

}  // namespace
}  // namespace strata::program
