#include "program/readers/peers.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/compose/composer.h"
#include "program/passes/expand.h"
#include "program/testing/toy_graph.h"

namespace strata::program {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Plan PlanOf(GroupSizes groups, ShardLevel shard = ShardLevel::kNone) {
  Plan plan;
  plan.groups = groups;
  plan.shard = shard;
  plan.virtual_shards = groups.data;
  plan.global_batch = 8;
  plan.evaluate_batch = 8;
  plan.gradient_clip = 1;
  plan.scratch = ToyScratch;
  return plan;
}

// Of each stage.
std::vector<ProgramSet> Build(const Plan& plan, bool tied = true) {
  auto built = Compose(ToyGraph({.blocks = 4, .tied = tied}), plan, ToyUpdate);
  EXPECT_TRUE(built.ok()) << built.status();
  std::vector<ProgramSet> sets;
  if (!built.ok()) return sets;
  for (StagePrograms& stage : *built) sets.push_back(std::move(stage.set));
  return sets;
}

// By rank.
std::vector<std::vector<int>> PeersOfAll(const std::vector<ProgramSet>& stages) {
  const Mesh mesh{.sizes = stages.front().groups};
  std::vector<std::vector<int>> peers;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    peers.push_back(PeersOf(stages[mesh.stage(rank)], mesh, rank));
  }
  return peers;
}

const Plan kPlans[] = {
    PlanOf({}),
    PlanOf({.data = 4}),
    PlanOf({.data = 4, .shard = 4}, ShardLevel::kOptimizer),
    PlanOf({.data = 4, .shard = 4}, ShardLevel::kGradients),
    PlanOf({.data = 8, .shard = 2}, ShardLevel::kParameters),
    PlanOf({.pipeline = 4}),
    PlanOf({.data = 2, .pipeline = 4}),
    PlanOf({.data = 2, .tensor = 2, .pipeline = 2}),
};

// Asked action by action, whom it is with, instead of in which ways there are any.
TEST(PeersTest, WhoeverAnActionMovesBytesWith_IsNamed) {
  for (const Plan& plan : kPlans) {
    const std::vector<ProgramSet> stages = Build(plan);
    const Mesh mesh{.sizes = stages.front().groups};
    const auto peers = PeersOfAll(stages);
    for (int rank = 0; rank < mesh.ranks(); ++rank) {
      const ProgramSet& set = stages[mesh.stage(rank)];
      for (const Program& program : set.programs) {
        for (const Action& action : Expand(set, program).actions) {
          if (!action.is_communication()) continue;
          const std::vector<int> members = mesh.Members(action.communication.group, rank);
          const int size = static_cast<int>(members.size());
          const int index = mesh.IndexIn(action.communication.group, rank);
          for (int i = 0; i < size; ++i) {
            const bool collective = action.mechanism == Mechanism::kCollective;
            const int offset = action.communication.peer_offset;
            const bool with = collective || (i - index - offset) % size == 0;
            if (!with || i == index) continue;
            EXPECT_THAT(peers[rank], ::testing::Contains(members[i]));
          }
        }
      }
    }
  }
}

TEST(PeersTest, PeersNameEachOther) {
  for (const Plan& plan : kPlans) {
    const auto peers = PeersOfAll(Build(plan));
    for (size_t rank = 0; rank < peers.size(); ++rank) {
      for (const int peer : peers[rank]) {
        EXPECT_THAT(peers[peer], ::testing::Contains(static_cast<int>(rank)));
      }
    }
  }
}

TEST(PeersTest, ARankAloneHasNone) { EXPECT_THAT(PeersOfAll(Build(PlanOf({})))[0], IsEmpty()); }

TEST(PeersTest, DataRanksExchangeWithAll) {
  EXPECT_THAT(PeersOfAll(Build(PlanOf({.data = 4})))[1], ElementsAre(0, 2, 3));
}

// Ranks that differ in two coordinates have nothing to say to each other.
TEST(PeersTest, AStage_ExchangesWithItsPipelineAndItsReplicas) {
  const auto peers = PeersOfAll(Build(PlanOf({.data = 2, .pipeline = 4})));
  EXPECT_THAT(peers[0], ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(peers[6], ElementsAre(2, 4, 5, 7));
}

}  // namespace
}  // namespace strata::program
