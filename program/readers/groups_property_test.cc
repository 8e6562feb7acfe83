// Random programs of several stages that communicate inside a stage and across: one rank per stage
// and calls as units decide as walking every rank op by op does.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "program/readers/machine.h"
#include "program/readers/meeting_calls.h"
#include "program/readers/verify.h"
#include "program/testing/random_program.h"

namespace strata::program {
namespace {

constexpr int kGroupSeeds = 2000;
constexpr Stream kStreams[] = {Stream::kCompute, Stream::kTensor, Stream::kGradients, Stream::kSend,
                               Stream::kReceive};

Communication RandomCollective(Dice& dice) {
  constexpr Group kGroups[] = {Group::kTensor, Group::kData, Group::kPipeline, Group::kWorld,
                               Group::kEmbedding};
  return {.group = kGroups[dice(5)], .bytes = 64 * (1 + dice(2))};
}

// A call whose ops communicate inside the stage, on the caller's stream or beside it.
Instruction RandomCall(Dice& dice, ProgramSet& set) {
  Template tmpl{.name = "t"};
  const int ops = 1 + dice(3);
  for (int o = 0; o < ops; ++o) {
    Op op{.kind = dice.OneIn(2) ? OpKind::kCollective : OpKind::kAdd};
    op.communication = {.group = dice.OneIn(2) ? Group::kTensor : Group::kData, .bytes = 64};
    if (dice.OneIn(2)) op.stream = kStreams[1 + dice(2)];
    if (o > 0 && dice.OneIn(2)) op.dependencies = {dice(o)};
    tmpl.ops.push_back(std::move(op));
  }
  set.templates.push_back(std::move(tmpl));
  return {.template_index = static_cast<int>(set.templates.size()) - 1};
}

void AddMessage(Dice& dice, std::vector<ProgramSet>& stages) {
  const int size = static_cast<int>(stages.size());
  const int from = dice(size), offset = dice.OneIn(2) ? 1 : -1;
  const bool inside = dice.OneIn(3);  // to the neighbour in the tensor group
  const int to = inside ? from : ((from + offset) % size + size) % size;
  Instruction send{.mechanism = Mechanism::kSend, .stream = Stream::kSend};
  send.communication = {
      .group = inside ? Group::kTensor : Group::kPipeline, .bytes = 64, .peer_offset = offset};
  Instruction receive = send;
  receive.mechanism = Mechanism::kReceive;
  // A channel's receives stand on one stream: on two, which of them meets a send would be chance.
  if (dice.OneIn(6)) {
    send.communication.channel = receive.communication.channel = 1;
  } else {
    receive.stream = Stream::kReceive;
  }
  receive.communication.peer_offset = dice.OneIn(12) ? offset : -offset;
  stages[from].programs[0].instructions.push_back(std::move(send));
  if (!dice.OneIn(25)) stages[to].programs[0].instructions.push_back(std::move(receive));
}

// One global order of which each stage lists its part, as builders do; now and then a mistake.
std::vector<ProgramSet> RandomStages(Dice& dice, const GroupSizes& sizes) {
  std::vector<ProgramSet> stages(sizes.pipeline);
  for (ProgramSet& stage : stages) {
    stage.groups = sizes;
    stage.programs.push_back({.name = "train"});
  }
  const int events = 2 + dice(10);
  for (int e = 0; e < events; ++e) {
    if (dice.OneIn(3)) {
      AddMessage(dice, stages);
      continue;
    }
    const bool call = dice.OneIn(2);
    const Communication communication = RandomCollective(dice);
    const Stream stream = kStreams[dice(3)];
    for (int s = 0; s < sizes.pipeline; ++s) {
      Instruction instruction = call ? RandomCall(dice, stages[s]) : Instruction{};
      if (!call) {
        const bool middle = s > 0 && s + 1 < sizes.pipeline;
        if (communication.group == Group::kEmbedding && middle && !dice.OneIn(20)) continue;
        instruction.mechanism = Mechanism::kCollective;
        instruction.communication = communication;
        if (dice.OneIn(30)) instruction.communication.bytes += 64;
      }
      instruction.stream = stream;
      stages[s].programs[0].instructions.push_back(std::move(instruction));
    }
  }
  for (ProgramSet& stage : stages) {
    auto& list = stage.programs[0].instructions;
    for (size_t i = 0; i < list.size(); ++i) {
      list[i].label = list[i].mechanism == Mechanism::kCall ? "call" : "communicate";
      if (i > 0 && dice.OneIn(3)) list[i].dependencies = {{dice(static_cast<int>(i)), 0}};
      if (dice.OneIn(8)) list[i].dependencies.push_back({dice(static_cast<int>(list.size())), 1});
    }
    if (list.size() > 1 && dice.OneIn(10))
      std::swap(list[dice(static_cast<int>(list.size()))].communication, list[0].communication);
  }
  return stages;
}

TEST(GroupsPropertyTest, OneRankPerStageDecidesAsEveryRankDoes) {
  int refused = 0, as_units = 0;
  for (uint64_t seed = 0; seed < kGroupSeeds; ++seed) {
    Dice dice(seed);
    const Mesh mesh{.sizes = {.data = 1 + dice(2), .tensor = 1 + dice(3), .pipeline = 1 + dice(3)}};
    const std::vector<ProgramSet> sets = RandomStages(dice, mesh.sizes);
    std::vector<const ProgramSet*> stages;
    for (const ProgramSet& set : sets) stages.push_back(&set);
    const ActionCost cost = [](const WalkedAction&) { return 1.0; };
    const auto every = WalkPrograms(stages, "train", mesh, 2, cost, Walked::kEveryRank);
    const auto one = WalkPrograms(stages, "train", mesh, 2, cost);
    const absl::Status groups = VerifyGroups(stages, "train", mesh);
    ASSERT_EQ(one.ok(), every.ok()) << "seed " << seed << ": " << one.status() << every.status();
    ASSERT_EQ(groups.ok(), every.ok()) << "seed " << seed << ": " << groups << every.status();
    refused += !every.ok();
    const auto calls = CallsThatMeet(stages, "train", mesh);
    as_units += calls.has_value() && WalkExpanded(stages, "train", *calls, mesh, 2, cost).ok();
    if (!every.ok()) continue;
    for (int r = 0; r < mesh.ranks(); ++r) {
      ASSERT_EQ(one->ranks[r].spans.size(), every->ranks[r].spans.size());
      for (size_t n = 0; n < one->ranks[r].spans.size(); ++n) {
        ASSERT_EQ(one->ranks[r].spans[n].end, every->ranks[r].spans[n].end)
            << "seed " << seed << " rank " << r;
      }
    }
  }
  EXPECT_GT(refused, kGroupSeeds / 5);
  EXPECT_GT(kGroupSeeds - refused, kGroupSeeds / 5);
  EXPECT_GT(as_units, (kGroupSeeds - refused) * 9 / 10);
}

}  // namespace
}  // namespace strata::program
