#include "planner/data_degrees.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strata::planner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

v1::ParallelSpec Parallel(int64_t shards, int64_t group) {
  v1::ParallelSpec parallel;
  if (shards > 0) parallel.set_virtual_shards(shards);
  if (group > 0) parallel.set_shard_group(group);
  return parallel;
}

TEST(FewerData, HalvesUntilADegreeIsOdd) {
  EXPECT_THAT(FewerData(Parallel(0, 0), 8), ElementsAre(4, 2, 1));
  EXPECT_THAT(FewerData(Parallel(0, 0), 12), ElementsAre(6, 3, 1));
  EXPECT_THAT(FewerData(Parallel(0, 0), 1), IsEmpty());
}

TEST(FewerData, FollowsTheVirtualShardsThatWereAskedFor) {
  EXPECT_THAT(FewerData(Parallel(12, 0), 6), ElementsAre(3, 1));
  EXPECT_THAT(FewerData(Parallel(16, 0), 2), ElementsAre(1));
}

TEST(FewerData, KeepsShardGroupsWhole) {
  EXPECT_THAT(FewerData(Parallel(0, 2), 8), ElementsAre(4, 2));
  EXPECT_THAT(FewerData(Parallel(0, 4), 4), IsEmpty());
}

}  // namespace
}  // namespace strata::planner
