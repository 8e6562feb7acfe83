#include <gtest/gtest.h>

#include "absl/strings/match.h"
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
    // Only tensor groups over several nodes may have to move as a whole.
    const int64_t tensor = random.shape.degrees[0];
    if (tensor == 1) {
      EXPECT_EQ(moved, 0) << "seed " << seed;
    }
    const absl::Status valid = Validate(random.cluster, occupancy, random.shape, *replaced);
    const bool split_only = absl::StrContains(valid.message(), "pipelines are split");
    EXPECT_TRUE(valid.ok() || split_only) << "seed " << seed << ": " << valid;
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
