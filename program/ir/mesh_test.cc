#include "program/ir/mesh.h"

#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::program {
namespace {

using ::testing::ElementsAre;

constexpr Group kAll[] = {Group::kNone,    Group::kWorld,    Group::kData,     Group::kTensor,
                          Group::kContext, Group::kPipeline, Group::kEmbedding};

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
  EXPECT_THAT(mesh.Members(Group::kEmbedding, rank), ElementsAre(rank - 12, rank + 6));
  EXPECT_EQ(mesh.IndexIn(Group::kPipeline, rank), 2);
  EXPECT_EQ(mesh.IndexIn(Group::kEmbedding, rank), -1);
  EXPECT_EQ(mesh.IndexIn(Group::kEmbedding, rank + 6), 1);
}

TEST(MeshTest, MembersAgreeOnTheirGroupAndItsSize) {
  for (const GroupSizes& sizes :
       {GroupSizes{}, GroupSizes{2, 3, 2, 4}, GroupSizes{4, 1, 1, 1}, GroupSizes{1, 2, 1, 2}}) {
    const Mesh mesh{.sizes = sizes};
    for (const Group group : kAll) {
      for (int rank = 0; rank < mesh.ranks(); ++rank) {
        const std::vector<int> members = mesh.Members(group, rank);
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

TEST(MeshTest, EmbeddingOfOneStageIsThatStage) {
  const Mesh mesh{.sizes = {.data = 2}};
  EXPECT_THAT(mesh.Members(Group::kEmbedding, 1), ElementsAre(1));
}

}  // namespace
}  // namespace strata::program
