#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "scheduler/placement/llama3.h"
#include "scheduler/placement/placement.h"
#include "scheduler/placement/random_cases.h"
#include "scheduler/placement/validate.h"

namespace strata::scheduler {
namespace {

using topology::Cluster;

// Without the devices of a node; its ranks are lost.
Placement WithoutNode(const Placement& placement, int node, Occupancy& occupancy) {
  Placement left = placement;
  for (Device& device : left.ranks) {
    if (device.node == node) device = {};
  }
  occupancy.free[node] = 0;
  return left;
}

// What is free while the job holds what it still has.
Occupancy Beside(Occupancy occupancy, const Placement& placement) {
  for (const Device& device : placement.ranks) {
    if (device.node >= 0) occupancy.free[device.node] &= ~(uint64_t{1} << device.device);
  }
  return occupancy;
}

Shape SixteenNodes() {
  Shape shape = Llama3Shape();
  shape.degrees = {8, 1, 1, 4, 4, 1};
  shape.spares = 1;
  return shape;
}

TEST(Replace, MovesOnlyLostRanksAndStaysInTheZone) {
  const Cluster cluster = PodsOf(2, 10);
  Occupancy occupancy = Occupancy::Now(cluster);
  const Shape shape = SixteenNodes();
  const auto placed = Place(cluster, occupancy, shape);
  ASSERT_TRUE(placed.has_value());
  const int lost = placed->ranks[40].node;
  const Placement old = WithoutNode(*placed, lost, occupancy);
  const auto replaced = Replace(cluster, Beside(occupancy, old), shape, old, placed->spares);
  ASSERT_TRUE(replaced.has_value());
  int spare = -1;
  for (size_t rank = 0; rank < placed->ranks.size(); ++rank) {
    if (placed->ranks[rank].node != lost) {
      EXPECT_EQ(replaced->ranks[rank], placed->ranks[rank]);
      continue;
    }
    if (spare < 0) spare = replaced->ranks[rank].node;
    EXPECT_EQ(replaced->ranks[rank].node, spare);  // together, as before
    EXPECT_EQ(replaced->ranks[rank].device, placed->ranks[rank].device);
  }
  EXPECT_EQ(spare, placed->spares.at(0));
  EXPECT_TRUE(replaced->spares.empty());
  EXPECT_EQ(replaced->cost.split_pipelines, 0);
  const absl::Status valid = Validate(cluster, occupancy, shape, *replaced);
  EXPECT_TRUE(valid.ok()) << valid;
}

TEST(Replace, WithoutFreeDevicesIsNothing) {
  const Cluster cluster = PodsOf(1, 8);
  Occupancy occupancy = Occupancy::Now(cluster);
  const Shape shape = SixteenNodes();
  const auto placed = Place(cluster, occupancy, shape);
  ASSERT_TRUE(placed.has_value());
  const Placement old = WithoutNode(*placed, 3, occupancy);
  EXPECT_FALSE(Replace(cluster, Beside(occupancy, old), shape, old, {}).has_value());
}

// A job of whole nodes in one of two zones of four nodes, in canonical order; the first `free`
// nodes of the other zone are free too.
struct InOneZone {
  Cluster cluster = PodsOf(2, 2);
  Occupancy occupancy = Occupancy::Now(cluster);
  Shape shape = Llama3Shape();
  Placement placed;

  InOneZone(const planner::Degrees& degrees, int free) {
    shape.degrees = degrees;
    shape.traffic[1] = {.next_bytes = 4e9, .exposed = 0.1};
    for (int node = 4 + free; node < 8; ++node) occupancy.free[node] = 0;
    Occupancy first = occupancy;
    std::fill(first.free.begin() + 4, first.free.end(), 0);
    placed = *Place(cluster, first, shape);
  }

  std::optional<Placement> ReplaceWithout(const std::vector<int>& nodes) {
    old = placed;
    for (const int node : nodes) old = WithoutNode(old, node, occupancy);
    return Replace(cluster, Beside(occupancy, old), shape, old, {});
  }

  // Ranks that were not lost and are elsewhere now.
  int MovedIn(const Placement& now) const {
    int moved = 0;
    for (size_t rank = 0; rank < old.ranks.size(); ++rank) {
      moved += old.ranks[rank].node >= 0 && !(now.ranks[rank] == old.ranks[rank]);
    }
    return moved;
  }

  Placement old;
};

TEST(Replace, WithAFullZoneMovesTheWholePipelineAndNoOther) {
  InOneZone job({8, 1, 1, 2, 2, 1}, 4);
  const auto now = job.ReplaceWithout({job.placed.ranks[0].node});
  ASSERT_TRUE(now.has_value());
  EXPECT_EQ(now->cost.split_pipelines, 0);
  EXPECT_EQ(job.MovedIn(*now), 8);  // the pipeline's other node
  const absl::Status valid = Validate(job.cluster, job.occupancy, job.shape, *now);
  EXPECT_TRUE(valid.ok()) << valid;
}

TEST(Replace, WithAFullZoneMovesOnePipelineToMakeRoomForAnother) {
  InOneZone job({8, 1, 1, 2, 2, 1}, 2);
  std::vector<int> lost;  // a node of each pipeline
  for (size_t rank = 0; rank < job.placed.ranks.size(); rank += 8) {
    const planner::Degrees at =
        CoordinatesOf(static_cast<int64_t>(rank), job.shape.degrees, job.placed.order);
    if (at[3] == 0) lost.push_back(job.placed.ranks[rank].node);
  }
  ASSERT_EQ(lost.size(), 2);
  const auto now = job.ReplaceWithout(lost);
  ASSERT_TRUE(now.has_value());
  EXPECT_EQ(now->cost.split_pipelines, 0);
  EXPECT_EQ(job.MovedIn(*now), 8);
  const absl::Status valid = Validate(job.cluster, job.occupancy, job.shape, *now);
  EXPECT_TRUE(valid.ok()) << valid;
}

TEST(Replace, WithAFullZoneMovesAllPipelinesOfAContextGroup) {
  InOneZone job({8, 2, 1, 2, 1, 1}, 4);
  const auto now = job.ReplaceWithout({job.placed.ranks[0].node});
  ASSERT_TRUE(now.has_value());
  EXPECT_EQ(now->cost.split_pipelines, 0);
  EXPECT_EQ(now->cost.split_contexts, 0);
  EXPECT_EQ(job.MovedIn(*now), 24);
  const absl::Status valid = Validate(job.cluster, job.occupancy, job.shape, *now);
  EXPECT_TRUE(valid.ok()) << valid;
}

TEST(Replace, WithAFullZoneAndNothingToKeepWholeMovesLostRanksAlone) {
  InOneZone job({8, 1, 1, 1, 4, 1}, 4);
  const auto now = job.ReplaceWithout({job.placed.ranks[0].node});
  ASSERT_TRUE(now.has_value());
  EXPECT_EQ(job.MovedIn(*now), 0);
}

TEST(Replace, SplitsAPipelineThatNoPlacementWouldKeepWhole) {
  InOneZone job({8, 1, 1, 4, 1, 1}, 3);
  const auto now = job.ReplaceWithout({job.placed.ranks[0].node});
  ASSERT_TRUE(now.has_value());
  EXPECT_EQ(now->cost.split_pipelines, 1);
  EXPECT_EQ(job.MovedIn(*now), 0);
  const absl::Status valid = Validate(job.cluster, job.occupancy, job.shape, *now);
  EXPECT_TRUE(valid.ok()) << valid;
}

TEST(Replace, IsNothingWhereMorePipelinesWouldSplitThanInANewPlacement) {
  const Cluster cluster = PodsOf(2, 3);
  Occupancy occupancy = Occupancy::Now(cluster);
  Shape shape = Llama3Shape();
  shape.degrees = {8, 1, 1, 3, 3, 1};
  occupancy.free[11] = 0;
  const auto placed = Place(cluster, occupancy, shape);
  ASSERT_TRUE(placed.has_value());
  ASSERT_EQ(placed->cost.split_pipelines, 0);
  // One node of each of the two pipelines in the zone that is full.
  Placement old = *placed;
  std::vector<int> lost(3, -1);  // by pipeline
  for (size_t rank = 0; rank < old.ranks.size(); ++rank) {
    const auto at = CoordinatesOf(static_cast<int64_t>(rank), shape.degrees, old.order);
    if (placed->ranks[rank].node < 6) lost[at[4]] = placed->ranks[rank].node;
  }
  for (const int node : lost) {
    if (node >= 0) old = WithoutNode(old, node, occupancy);
  }
  EXPECT_FALSE(Replace(cluster, Beside(occupancy, old), shape, old, {}).has_value());
  const auto anew = Place(cluster, occupancy, shape);
  ASSERT_TRUE(anew.has_value());
  EXPECT_EQ(anew->cost.split_pipelines, 1);
}

// Whatever is found keeps what was there and obeys the rules; what still fits anywhere is found.
TEST(Replace, OnRandomClustersKeepsTheRestAndTheRules) {
  int replaced_count = 0;
  for (int seed = 0; seed < 1500; ++seed) {
    const RandomCase random = LargeCase(seed);
    Occupancy occupancy = Occupancy::Now(random.cluster);
    const auto placed = Place(random.cluster, occupancy, random.shape);
    if (!placed) continue;
    const int lost = placed->ranks[placed->ranks.size() / 2].node;
    const Placement old = WithoutNode(*placed, lost, occupancy);
    const auto replaced =
        Replace(random.cluster, Beside(occupancy, old), random.shape, old, placed->spares);
    if (!replaced) continue;
    ++replaced_count;
    int moved = 0;
    for (size_t rank = 0; rank < old.ranks.size(); ++rank) {
      moved += old.ranks[rank].node >= 0 && !(replaced->ranks[rank] == old.ranks[rank]);
    }
    // Only what has to stay together may have to move as a whole.
    const planner::Degrees& degrees = random.shape.degrees;
    if (degrees[0] * degrees[1] * degrees[3] == 1) {
      EXPECT_EQ(moved, 0) << "seed " << seed;
    }
    const absl::Status valid = Validate(random.cluster, occupancy, random.shape, *replaced);
    EXPECT_TRUE(valid.ok()) << "seed " << seed << ": " << valid;
  }
  EXPECT_GT(replaced_count, 200);
}

TEST(Place, DoesNotDependOnTheOrderOfTheDescription) {
  for (int seed = 0; seed < 300; ++seed) {
    const RandomCase random = LargeCase(seed);
    topology::Description shuffled = random.cluster.ToDescription();
    Draw draw(seed);
    for (size_t left = shuffled.nodes.size(); left > 1; --left) {
      std::swap(shuffled.nodes[left - 1], shuffled.nodes[draw.Below(static_cast<int>(left))]);
    }
    const auto other = Cluster::Make(shuffled);
    ASSERT_TRUE(other.ok()) << other.status();
    const auto a = Place(random.cluster, Occupancy::Now(random.cluster), random.shape);
    const auto b = Place(*other, Occupancy::Now(*other), random.shape);
    ASSERT_EQ(a.has_value(), b.has_value());
    if (!a) continue;
    EXPECT_EQ(a->order, b->order);
    for (size_t rank = 0; rank < a->ranks.size(); ++rank) {
      ASSERT_EQ(a->ranks[rank].device, b->ranks[rank].device);
      ASSERT_EQ(random.cluster.nodes()[a->ranks[rank].node].name,
                other->nodes()[b->ranks[rank].node].name);
    }
  }
}

}  // namespace
}  // namespace strata::scheduler
