// A trainer's mesh against the placement's coordinates: in any order of any layout they are the
// same.
#include "worker/trainer/rank_mesh.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/traffic.h"
#include "scheduler/placement/placement.h"

namespace strata::worker {
namespace {

using planner::Dimension;
using program::Axis;
using ::testing::HasSubstr;

v1::TrainerTask TaskOf(const std::vector<Dimension>& order, int ranks) {
  v1::TrainerTask task;
  task.set_ranks(ranks);
  for (const Dimension dimension : order) task.add_rank_order(planner::NameOf(dimension));
  return task;
}

class RankMesh : public ::testing::Test {
 protected:
  int64_t Draw(int64_t below) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(below));
  }
  std::vector<Dimension> RandomOrder() {
    std::vector<Dimension> order = {planner::kAllDimensions.begin(), planner::kAllDimensions.end()};
    for (int64_t i = planner::kDimensions - 1; i > 0; --i) std::swap(order[i], order[Draw(i + 1)]);
    return order;
  }
  std::mt19937_64 random_{12};
};

TEST_F(RankMesh, HasThePlacementsCoordinatesWhateverTheOrder) {
  for (int round = 0; round < 400; ++round) {
    program::GroupSizes groups;
    groups.tensor = static_cast<int>(1 + Draw(3));
    groups.context = static_cast<int>(1 + Draw(2));
    groups.pipeline = static_cast<int>(1 + Draw(3));
    const int64_t part = 1 + Draw(3), copies = 1 + Draw(3);
    groups.data = static_cast<int>(part * copies);
    v1::ParallelSpec parallel;
    parallel.set_tensor(groups.tensor);
    parallel.set_context(groups.context);
    parallel.set_pipeline(groups.pipeline);
    parallel.set_data(groups.data);
    const bool hybrid = part > 1 && Draw(3) > 0;
    if (hybrid) {
      groups.shard = static_cast<int>(part);
      parallel.set_shard_group(part);
    } else if (Draw(2) > 0) {  // sharded over all
      groups.shard = groups.data;
      parallel.set_shard_group(groups.data);
    }
    const std::vector<Dimension> order = RandomOrder();
    const auto mesh = MeshOf(groups, TaskOf(order, groups.world()));
    ASSERT_TRUE(mesh.ok()) << mesh.status();
    const auto degrees = planner::DegreesOf(parallel);
    ASSERT_TRUE(degrees.ok()) << degrees.status();
    for (int rank = 0; rank < mesh->ranks(); ++rank) {
      const planner::Degrees at = scheduler::CoordinatesOf(rank, *degrees, order);
      const auto along = [&](Dimension dimension) { return at[static_cast<size_t>(dimension)]; };
      ASSERT_EQ(mesh->tensor(rank), along(Dimension::kTensor)) << round;
      ASSERT_EQ(mesh->context(rank), along(Dimension::kContext)) << round;
      ASSERT_EQ(mesh->stage(rank), along(Dimension::kPipeline)) << round;
      const int64_t parts = (*degrees)[static_cast<size_t>(Dimension::kData)];
      ASSERT_EQ(mesh->data(rank), along(Dimension::kReplicate) * parts + along(Dimension::kData))
          << round;
      if (!hybrid) continue;
      ASSERT_EQ(mesh->shard(rank), along(Dimension::kData)) << round;
      ASSERT_EQ(mesh->replica(rank), along(Dimension::kReplicate)) << round;
    }
  }
}

TEST_F(RankMesh, WithoutAnOrderIsTheUsualOne) {
  const auto mesh = MeshOf({.data = 2, .tensor = 2}, TaskOf({}, 4));
  ASSERT_TRUE(mesh.ok()) << mesh.status();
  EXPECT_EQ(mesh->order, program::Mesh{}.order);
}

TEST_F(RankMesh, OrdersThatNameSomethingElseOrNotAllAreRefused) {
  const auto refused = [](const std::vector<std::string>& names) {
    v1::TrainerTask task = TaskOf({}, 2);
    for (const std::string& name : names) task.add_rank_order(name);
    return std::string(MeshOf({.data = 2}, task).status().message());
  };
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"tensor", "context", "pipeline", "data"},
        {"tensor", "context", "expert", "pipeline", "data", "diagonal"},
        {"tensor", "context", "expert", "pipeline", "data", "data"},
        {"tensor", "context", "expert", "pipeline", "data", "replicate", "diagonal"}}) {
    EXPECT_THAT(refused(names), HasSubstr(absl::StrJoin(names, ", ")));
  }
}

TEST_F(RankMesh, AnotherNumberOfRanksIsRefused) {
  EXPECT_THAT(std::string(MeshOf({.data = 2}, TaskOf({}, 3)).status().message()),
              HasSubstr("2 ranks, started are 3"));
}

}  // namespace
}  // namespace strata::worker
