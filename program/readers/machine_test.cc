#include "program/readers/machine.h"

#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::program {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Instruction Work(const std::string& label, Stream stream = Stream::kCompute,
                 std::vector<Dependency> dependencies = {}) {
  Instruction work{.mechanism = Mechanism::kSignal, .label = label, .stream = stream};
  work.dependencies = std::move(dependencies);
  return work;
}
Instruction Collective(const std::string& label, Communication communication, Stream stream,
                       std::vector<Dependency> dependencies = {}) {
  Instruction collective = Work(label, stream, std::move(dependencies));
  collective.mechanism = Mechanism::kCollective;
  collective.communication = communication;
  return collective;
}
Instruction Message(Mechanism mechanism, const std::string& label, int peer_offset, int64_t bytes,
                    Stream stream, std::vector<Dependency> dependencies = {}, int channel = 0) {
  Instruction message = Work(label, stream, std::move(dependencies));
  message.mechanism = mechanism;
  message.communication = {
      .group = Group::kPipeline, .bytes = bytes, .peer_offset = peer_offset, .channel = channel};
  return message;
}
constexpr Communication kReduce{
    .op = CollectiveOp::kAllReduce, .group = Group::kPipeline, .bytes = 64};

ProgramSet Stage(std::vector<Instruction> instructions) {
  ProgramSet set;
  set.programs.push_back({.name = "train", .instructions = std::move(instructions)});
  return set;
}

// Seconds by label; what is not named takes none.
absl::StatusOr<MachineResult> WalkStages(const std::vector<ProgramSet>& stages, int steps,
                                         const std::map<std::string, double>& seconds = {}) {
  std::vector<const ProgramSet*> pointers;
  for (const ProgramSet& stage : stages) pointers.push_back(&stage);
  const Mesh mesh{.sizes = {.pipeline = static_cast<int>(stages.size())}};
  return WalkPrograms(pointers, "train", mesh, steps, [&](const WalkedAction& what) {
    const auto found = seconds.find(what.program.instructions[what.action.instruction].label);
    return found == seconds.end() ? 0.0 : found->second;
  });
}
std::string Refusal(const std::vector<ProgramSet>& stages) {
  const absl::Status status = WalkStages(stages, 2).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  return std::string(status.message());
}
void ExpectSpan(const RankTimes& times, int node, double begin, double end) {
  EXPECT_DOUBLE_EQ(times.spans[node].begin, begin) << "node " << node;
  EXPECT_DOUBLE_EQ(times.spans[node].end, end) << "node " << node;
}

TEST(MachineTest, StreamsRunInOrderAndDependenciesHoldAcrossSteps) {
  const auto walked = WalkStages({Stage({Work("a", Stream::kCompute, {{1, 1}}),
                                         Work("b", Stream::kHost, {{0, 0}}), Work("c")})},
                                 2, {{"a", 2}, {"b", 4}, {"c", 1}});
  ASSERT_TRUE(walked.ok()) << walked.status();
  const RankTimes& times = walked->ranks[0];
  ExpectSpan(times, 0, 0, 2);
  ExpectSpan(times, 1, 2, 6);
  ExpectSpan(times, 2, 2, 3);
  ExpectSpan(times, 3, 6, 8);  // after b of the step before
  ExpectSpan(times, 4, 8, 12);
  ExpectSpan(times, 5, 8, 9);
}

TEST(MachineTest, CollectiveBeginsWhenTheLastMemberArrives) {
  const auto stage = [](const std::string& work) {
    return Stage({Work(work), Collective("sum", kReduce, Stream::kTensor, {{0, 0}})});
  };
  const auto walked =
      WalkStages({stage("short"), stage("long")}, 1, {{"short", 1}, {"long", 5}, {"sum", 2}});
  ASSERT_TRUE(walked.ok()) << walked.status();
  for (const int rank : {0, 1}) ExpectSpan(walked->ranks[rank], 1, 5, 7);
}

TEST(MachineTest, SendAndReceiveMeetAndNeitherIsBuffered) {
  const auto walked = WalkStages(
      {Stage({Work("produce"), Message(Mechanism::kSend, "send", 1, 64, Stream::kSend, {{0, 0}})}),
       Stage({Work("busy"),
              Message(Mechanism::kReceive, "receive", -1, 64, Stream::kReceive, {{0, 0}})})},
      2, {{"produce", 1}, {"busy", 4}, {"send", 2}, {"receive", 2}});
  ASSERT_TRUE(walked.ok()) << walked.status();
  for (const int rank : {0, 1}) {
    ExpectSpan(walked->ranks[rank], 1, 4, 6);
    ExpectSpan(walked->ranks[rank], 3, 8, 10);
  }
}

TEST(MachineTest, MessagesOfDifferentChannelsDoNotMatch) {
  const auto stages = [](int channel) {
    return std::vector<ProgramSet>{
        Stage({Message(Mechanism::kSend, "send", 1, 64, Stream::kSend, {}, 1)}),
        Stage({Message(Mechanism::kReceive, "receive", 1, 64, Stream::kReceive, {}, channel)})};
  };
  EXPECT_TRUE(WalkStages(stages(1), 2).ok());
  EXPECT_THAT(Refusal(stages(2)), AllOf(HasSubstr("deadlock"),
                                        HasSubstr("rank 0 at instruction 0 (send) waits to send "
                                                  "to rank 1 on channel 1"),
                                        HasSubstr("waits to receive from rank 0 on channel 2")));
}

TEST(MachineTest, MessagesOfDifferentSizesAreRefused) {
  EXPECT_THAT(Refusal({Stage({Message(Mechanism::kSend, "send", 1, 64, Stream::kSend)}),
                       Stage({Message(Mechanism::kReceive, "receive", 1, 32, Stream::kReceive)})}),
              AllOf(HasSubstr("rank 0 at instruction 0 (send)"),
                    HasSubstr("rank 1 at instruction 0 (receive)"), HasSubstr("64 bytes"),
                    HasSubstr("32")));
}

TEST(MachineTest, SwappedSendsAreRefused) {
  const auto message = [](Mechanism mechanism, int64_t bytes) {
    return Message(mechanism, std::to_string(bytes), 1, bytes,
                   mechanism == Mechanism::kSend ? Stream::kSend : Stream::kReceive);
  };
  EXPECT_THAT(
      Refusal({Stage({message(Mechanism::kSend, 32), message(Mechanism::kSend, 64)}),
               Stage({message(Mechanism::kReceive, 64), message(Mechanism::kReceive, 32)})}),
      HasSubstr("(32) sends 32 bytes on channel 0, but rank 1 at instruction 0 (64)"));
}

TEST(MachineTest, TwoRanksThatBothSendFirstOnOneStreamDeadlock) {
  const auto stage = [] {
    return Stage({Message(Mechanism::kSend, "send", 1, 64, Stream::kSend),
                  Message(Mechanism::kReceive, "receive", 1, 64, Stream::kSend)});
  };
  EXPECT_THAT(Refusal({stage(), stage()}),
              AllOf(HasSubstr("deadlock: rank 0 at instruction 0 (send)"), HasSubstr("; rank 1")));
}

TEST(MachineTest, CollectivesThatWaitForEachOtherOnTwoStreamsDeadlock) {
  // Each stream agrees, but one rank does b before a, the other a before b.
  const ProgramSet one = Stage({Collective("a", kReduce, Stream::kTensor),
                                Collective("b", kReduce, Stream::kGradients, {{0, 0}})});
  const ProgramSet other = Stage({Collective("b", kReduce, Stream::kGradients),
                                  Collective("a", kReduce, Stream::kTensor, {{0, 0}})});
  EXPECT_THAT(
      Refusal({one, other}),
      AllOf(HasSubstr("deadlock"), HasSubstr("(a) waits in all-reduce of group pipeline {0, 1}"),
            HasSubstr("(b) waits in all-reduce of group pipeline {0, 1}")));
}

TEST(MachineTest, MembersThatDisagreeAreNamed) {
  std::vector<Communication> wrong(5, kReduce);
  wrong[0].bytes = 32;
  wrong[1].dtype = DType::kBF16;
  wrong[2].op = CollectiveOp::kAllGather;
  wrong[3].op = CollectiveOp::kBroadcast;
  wrong[4].root = 1;
  for (const Communication& communication : wrong) {
    EXPECT_THAT(
        Refusal({Stage({Collective("sum", kReduce, Stream::kTensor)}),
                 Stage({Collective("sum", communication, Stream::kTensor)})}),
        AllOf(HasSubstr("group pipeline of ranks {0, 1}, collective 0"), HasSubstr("rank 0 at"),
              HasSubstr("rank 1 at"), HasSubstr("all-reduce of 64 bytes f32")));
  }
  EXPECT_THAT(Refusal({Stage({Collective("sum", kReduce, Stream::kTensor)}),
                       Stage({Collective("other sum", kReduce, Stream::kTensor)})}),
              HasSubstr("(other sum)"));
}

TEST(MachineTest, MemberThatStaysAwayIsADeadlock) {
  EXPECT_THAT(Refusal({Stage({Collective("sum", kReduce, Stream::kTensor)}), Stage({Work("x")})}),
              HasSubstr("rank 0 at instruction 0 (sum) waits in all-reduce"));
}

TEST(MachineTest, RankOutsideTheGroupIsRefused) {
  Communication embedding = kReduce;
  embedding.group = Group::kEmbedding;
  const ProgramSet stage = Stage({Collective("tie", embedding, Stream::kGradients)});
  EXPECT_THAT(Refusal({stage, stage, stage}),
              AllOf(HasSubstr("rank 1 at instruction 0 (tie)"), HasSubstr("embedding {}"),
                    HasSubstr("no member")));
  Instruction send = Message(Mechanism::kSend, "send", 1, 64, Stream::kSend);
  send.communication.group = Group::kEmbedding;
  EXPECT_THAT(Refusal({Stage({}), Stage({send}), Stage({})}), HasSubstr("no member"));
}

TEST(MachineTest, GroupsOfAMeshDoNotMix) {
  // Two data ranks × two tensor ranks: each tensor group meets by itself.
  Communication tensor = kReduce;
  tensor.group = Group::kTensor;
  const ProgramSet stage = Stage({Collective("sum", tensor, Stream::kTensor)});
  const Mesh mesh{.sizes = {.data = 2, .tensor = 2}};
  const auto walked =
      WalkPrograms({&stage}, "train", mesh, 3, [](const WalkedAction&) { return 1.0; });
  ASSERT_TRUE(walked.ok()) << walked.status();
  ASSERT_EQ(walked->ranks.size(), 4u);
  for (const RankTimes& times : walked->ranks) ExpectSpan(times, 2, 2, 3);
}

TEST(MachineTest, MissingProgramsAndStagesAreErrors) {
  const ProgramSet stage = Stage({});
  const ActionCost free = [](const WalkedAction&) { return 0.0; };
  EXPECT_EQ(WalkPrograms({&stage}, "evaluate", Mesh{}, 1, free).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(
      WalkPrograms({&stage}, "train", Mesh{.sizes = {.pipeline = 2}}, 1, free).status().code(),
      absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace strata::program
