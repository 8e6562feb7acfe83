#include "program/ir/mesh.h"

#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::program {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::array<Axis, kAxisCount> kOrders[] = {
    Mesh{}.order,
    {Axis::kShard, Axis::kReplica, Axis::kTensor, Axis::kStage, Axis::kExpert, Axis::kContext},
    {Axis::kReplica, Axis::kTensor, Axis::kContext, Axis::kShard, Axis::kStage, Axis::kExpert}};

TEST(MeshTest, TensorVariesFastestThenContextThenStageThenData) {
  const Mesh mesh{.sizes = {.data = 2, .tensor = 3, .context = 2, .pipeline = 4}};
  ASSERT_EQ(mesh.ranks(), 48);
  const int rank = ((1 * 4 + 2) * 2 + 1) * 3 + 2;
  EXPECT_EQ(mesh.data(rank), 1);
  EXPECT_EQ(mesh.stage(rank), 2);
  EXPECT_EQ(mesh.context(rank), 1);
  EXPECT_EQ(mesh.tensor(rank), 2);
  EXPECT_THAT(mesh.Members(Group::kTensor, rank), ElementsAre(rank - 2, rank - 1, rank));
  EXPECT_THAT(mesh.Members(Group::kContext, rank), ElementsAre(rank - 3, rank));
  EXPECT_THAT(mesh.Members(Group::kPipeline, rank),
              ElementsAre(rank - 12, rank - 6, rank, rank + 6));
  EXPECT_THAT(mesh.Members(Group::kData, rank), ElementsAre(rank - 24, rank));
  EXPECT_THAT(mesh.Members(Group::kEmbedding, rank), IsEmpty());
  EXPECT_THAT(mesh.Members(Group::kEmbedding, rank + 6), ElementsAre(rank - 12, rank + 6));
  EXPECT_EQ(mesh.IndexIn(Group::kPipeline, rank), 2);
  EXPECT_EQ(mesh.IndexIn(Group::kEmbedding, rank), -1);
  EXPECT_EQ(mesh.IndexIn(Group::kEmbedding, rank + 6), 1);
}

TEST(MeshTest, MembersAgreeOnTheirGroupAndItsSize) {
  for (const GroupSizes& sizes : {GroupSizes{}, GroupSizes{2, 3, 2, 4}, GroupSizes{4, 1, 1, 1},
                                  GroupSizes{1, 2, 1, 2}, GroupSizes{6, 2, 1, 3, 3}}) {
    for (const auto& order : kOrders) {
      const Mesh mesh{.sizes = sizes, .order = order};
      for (const Group group : kGroups) {
        for (int rank = 0; rank < mesh.ranks(); ++rank) {
          const std::vector<int> members = mesh.Members(group, rank);
          if (members.empty()) {
            ASSERT_EQ(group, Group::kEmbedding);
            ASSERT_EQ(mesh.IndexIn(group, rank), -1);
            continue;
          }
          ASSERT_EQ(static_cast<int>(members.size()), sizes.of(group)) << Name(group);
          ASSERT_EQ(std::set<int>(members.begin(), members.end()).size(), members.size());
          for (size_t i = 0; i < members.size(); ++i) {
            ASSERT_EQ(mesh.Members(group, members[i]), members) << Name(group);
            ASSERT_EQ(mesh.IndexIn(group, members[i]), static_cast<int>(i));
          }
        }
      }
    }
  }
}

TEST(MeshTest, ShardGroupsAreNeighboursOfTheDataGroupAndReplicasTheirPeers) {
  const Mesh mesh{.sizes = {.data = 6, .tensor = 2, .shard = 3}};
  const int rank = 2 * (1 * 3 + 2) + 1;  // replica 1, shard 2, tensor 1
  EXPECT_EQ(mesh.replica(rank), 1);
  EXPECT_EQ(mesh.shard(rank), 2);
  EXPECT_THAT(mesh.Members(Group::kShard, rank), ElementsAre(7, 9, 11));
  EXPECT_THAT(mesh.Members(Group::kReplica, rank), ElementsAre(5, 11));
  EXPECT_THAT(mesh.Members(Group::kData, rank), ElementsAre(1, 3, 5, 7, 9, 11));
}

TEST(MeshTest, OtherOrderOfRanks_GroupsFollowCoordinates) {
  const Mesh mesh{.sizes = {.data = 2, .tensor = 2},
                  .order = {Axis::kReplica, Axis::kShard, Axis::kContext, Axis::kStage,
                            Axis::kExpert, Axis::kTensor}};
  EXPECT_EQ(mesh.data(1), 1);
  EXPECT_EQ(mesh.tensor(1), 0);
  EXPECT_THAT(mesh.Members(Group::kTensor, 1), ElementsAre(1, 3));
  EXPECT_THAT(mesh.Members(Group::kData, 1), ElementsAre(0, 1));
}

TEST(MeshTest, StagesBetweenShardsAndReplicas_GroupsFollowCoordinates) {
  const Mesh mesh{.sizes = {.data = 4, .pipeline = 2, .shard = 2},
                  .order = {Axis::kTensor, Axis::kContext, Axis::kExpert, Axis::kShard,
                            Axis::kStage, Axis::kReplica}};
  const int rank = (1 * 2 + 0) * 2 + 1;  // replica 1, stage 0, shard 1
  EXPECT_EQ(mesh.stage(rank), 0);
  EXPECT_EQ(mesh.data(rank), 3);
  EXPECT_THAT(mesh.Members(Group::kShard, rank), ElementsAre(4, 5));
  EXPECT_THAT(mesh.Members(Group::kReplica, rank), ElementsAre(1, 5));
  EXPECT_THAT(mesh.Members(Group::kPipeline, rank), ElementsAre(5, 7));
  EXPECT_THAT(mesh.Members(Group::kData, rank), ElementsAre(0, 1, 4, 5));
}

TEST(MeshTest, NeighboursOfAGroupAreAsFarApartAsItsFastestAxisSays) {
  const Mesh mesh{.sizes = {.data = 8, .tensor = 2, .context = 3, .pipeline = 5, .shard = 4}};
  const auto span = [&](Group group) {
    const GroupSpan found = mesh.SpanOf(group);
    return std::pair(found.ranks, found.stride);
  };
  EXPECT_EQ(span(Group::kTensor), std::pair(2, 1));
  EXPECT_EQ(span(Group::kContext), std::pair(3, 2));
  EXPECT_EQ(span(Group::kPipeline), std::pair(5, 6));
  EXPECT_EQ(span(Group::kEmbedding), std::pair(2, 24));
  EXPECT_EQ(span(Group::kShard), std::pair(4, 30));
  EXPECT_EQ(span(Group::kData), std::pair(8, 30));
  EXPECT_EQ(span(Group::kReplica), std::pair(2, 120));
  for (const Group group : {Group::kTensor, Group::kContext, Group::kPipeline, Group::kShard}) {
    const std::vector<int> members = mesh.Members(group, 0);
    EXPECT_EQ(members[1] - members[0], span(group).second);
  }
}

TEST(MeshTest, EmbeddingOfOneStageIsThatStage) {
  const Mesh mesh{.sizes = {.data = 2}};
  EXPECT_THAT(mesh.Members(Group::kEmbedding, 1), ElementsAre(1));
}

}  // namespace
}  // namespace strata::program
