#include "planner/data_degrees.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strata::planner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

v1::ParallelSpec Parallel(int64_t shards, int64_t group = 0,
                          v1::ParallelSpec::Shard shard = v1::ParallelSpec::SHARD_ZERO1) {
  v1::ParallelSpec parallel;
  parallel.set_shard(shard);
  parallel.set_virtual_shards(shards);
  if (group > 0) parallel.set_shard_group(group);
  return parallel;
}

TEST(FewerData, HalvesUntilADegreeIsOdd) {
  EXPECT_THAT(FewerData(Parallel(8), 8), ElementsAre(4, 2, 1));
  EXPECT_THAT(FewerData(Parallel(12), 12), ElementsAre(6, 3, 1));
  EXPECT_THAT(FewerData(Parallel(1), 1), IsEmpty());
}

TEST(FewerData, FollowsTheVirtualShardsThatWereAskedFor) {
  EXPECT_THAT(FewerData(Parallel(12), 6), ElementsAre(3, 1));
  EXPECT_THAT(FewerData(Parallel(16), 2), ElementsAre(1));
}

TEST(FewerData, KeepsShardGroupsWhole) {
  EXPECT_THAT(FewerData(Parallel(8, 2), 8), ElementsAre(4, 2));
  EXPECT_THAT(FewerData(Parallel(8, 4), 8), ElementsAre(4));
}

TEST(FewerData, AShardGroupOfAllRanksShrinksWithThem) {
  EXPECT_THAT(FewerData(Parallel(8, 8), 8), ElementsAre(4, 2, 1));
  EXPECT_THAT(FewerData(Parallel(4, 4), 4), ElementsAre(2, 1));
  EXPECT_EQ(WithData(Parallel(8, 8), 8, 2).shard_group(), 2);
  EXPECT_EQ(WithData(Parallel(8, 4), 8, 4).shard_group(), 4);
}

TEST(FewerData, OfShardedGradientsArePowersOfTwo) {
  EXPECT_THAT(FewerData(Parallel(12, 4, v1::ParallelSpec::SHARD_ZERO3), 4), ElementsAre(2, 1));
  EXPECT_THAT(FewerData(Parallel(12, 12, v1::ParallelSpec::SHARD_ZERO2), 12), ElementsAre(4, 2, 1));
}

TEST(FewerData, AreNoneWithoutATree) {
  EXPECT_THAT(FewerData(Parallel(0, 4, v1::ParallelSpec::SHARD_ZERO3), 4), IsEmpty());
}

}  // namespace
}  // namespace strata::planner
