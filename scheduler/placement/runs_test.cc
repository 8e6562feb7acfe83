// Constraints of a job's topology: as cheap as exhaustive search on small clusters, obeyed on all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "scheduler/placement/brute_force.h"
#include "scheduler/placement/placement.h"
#include "scheduler/placement/random_cases.h"
#include "scheduler/placement/validate.h"

namespace strata::scheduler {
namespace {

using ::testing::HasSubstr;

std::string Described(const RandomCase& random) {
  std::string text = absl::StrCat("degrees ", absl::StrJoin(random.shape.degrees, " "), ", levels ",
                                  absl::StrJoin(random.cluster.levels(), "/"), ", domain ",
                                  random.cluster.domain_depth());
  for (const TopologyConstraint& constraint : random.shape.topology) {
    absl::StrAppend(&text, "\n  ", constraint.ranks, " within ", constraint.within,
                    constraint.preferred ? " preferred" : "");
  }
  for (const topology::Node& node : random.cluster.nodes()) {
    absl::StrAppend(&text, "\n  ", node.name, " ", absl::StrJoin(node.at, "/"), " ", node.devices,
                    " {", absl::StrJoin(node.free, ","), "} ", node.kind);
  }
  return text;
}

Shape Strict(Shape shape) {
  for (TopologyConstraint& constraint : shape.topology) constraint.preferred = false;
  return shape;
}

TEST(Runs, OnSmallClustersArePlacedAsCheaplyAsExhaustiveSearch) {
  constexpr int kCases = 5000;
  int placed = 0, refused = 0;
  for (int seed = 0; seed < kCases; ++seed) {
    RandomCase random = SmallConstrainedCase(seed);
    if (random.shape.topology.empty()) continue;
    random.shape = Strict(random.shape);
    const Occupancy occupancy = Occupancy::Now(random.cluster);
    const auto least = LeastCostOf(random.cluster, occupancy, random.shape);
    const auto placement = Place(random.cluster, occupancy, random.shape);
    ASSERT_TRUE(placement || !least) << "seed " << seed << ": " << Described(random);
    refused += !placement;
    if (!placement) continue;
    const absl::Status valid = Validate(random.cluster, occupancy, random.shape, *placement);
    ASSERT_TRUE(valid.ok()) << "seed " << seed << ": " << valid << "\n" << Described(random);
    if (!least) continue;  // on unequally many devices of the rails: not searched by hand
    ++placed;
    LeastCost cost = {static_cast<double>(placement->cost.split_pipelines),
                      static_cast<double>(placement->cost.split_contexts)};
    cost.insert(cost.end(), placement->cost.bytes.begin(), placement->cost.bytes.end());
    for (size_t i = 0; i < cost.size(); ++i) {
      ASSERT_NEAR(cost[i], (*least)[i], 1e-6)
          << "seed " << seed << ": " << absl::StrJoin(cost, " ") << " instead of "
          << absl::StrJoin(*least, " ") << "\n"
          << Described(random);
    }
  }
  EXPECT_GT(placed, kCases / 5);
  EXPECT_GT(refused, kCases / 10);
}

TEST(Runs, OnLargerClustersAreObeyedAndRefusalsSayWhy) {
  int placed = 0, refused = 0;
  for (int seed = 0; seed < 600; ++seed) {
    const RandomCase random = LargeConstrainedCase(seed);
    const Occupancy occupancy = Occupancy::Now(random.cluster);
    const auto placement = Place(random.cluster, occupancy, random.shape);
    if (!placement) {
      const Refusal refusal = WhyNot(random.cluster, occupancy, random.shape);
      ASSERT_FALSE(refusal.reason.empty()) << "seed " << seed;
      ASSERT_EQ(refusal.infeasible, refusal.starts_when.empty()) << "seed " << seed;
      refused += !random.shape.topology.empty();
      continue;
    }
    placed += !random.shape.topology.empty();
    const absl::Status valid = Validate(random.cluster, occupancy, random.shape, *placement);
    ASSERT_TRUE(valid.ok()) << "seed " << seed << ": " << valid << "\n" << Described(random);
    // All that are preferred are obeyed where that can be.
    if (const auto strict = Place(random.cluster, occupancy, Strict(random.shape))) {
      const absl::Status all =
          Validate(random.cluster, occupancy, Strict(random.shape), *placement);
      ASSERT_TRUE(all.ok()) << "seed " << seed << ": " << all << "\n" << Described(random);
    }
  }
  EXPECT_GT(placed, 100);
  EXPECT_GT(refused, 20);
}

TEST(Runs, ReplacementsObeyThem) {
  int replaced = 0, moved_runs = 0;
  for (int seed = 0; seed < 1000; ++seed) {
    const RandomCase random = LargeConstrainedCase(seed);
    if (random.shape.topology.empty()) continue;
    Occupancy occupancy = Occupancy::Now(random.cluster);
    const auto placed = Place(random.cluster, occupancy, random.shape);
    if (!placed) continue;
    Draw draw(seed);
    Placement old = *placed;
    const int lost = old.ranks[draw.Below(static_cast<int>(old.ranks.size()))].node;
    for (Device& device : old.ranks) {
      occupancy.free[device.node] &= ~(uint64_t{1} << device.device);
      if (device.node == lost) device = {};
    }
    occupancy.free[lost] = 0;
    const auto found = Replace(random.cluster, occupancy, random.shape, old, {});
    if (!found) continue;
    ++replaced;
    for (size_t rank = 0; rank < old.ranks.size(); ++rank) {
      const bool stays = old.ranks[rank].node >= 0 && old.ranks[rank] == found->ranks[rank];
      moved_runs += old.ranks[rank].node >= 0 && !stays;
    }
    Occupancy then = occupancy;
    for (const Device& device : old.ranks) {
      if (device.node >= 0) then.free[device.node] |= uint64_t{1} << device.device;
    }
    Placement checked = *found;
    checked.spares.clear();
    const absl::Status valid = Validate(random.cluster, then, random.shape, checked);
    ASSERT_TRUE(valid.ok()) << "seed " << seed << ": " << valid << "\n" << Described(random);
  }
  EXPECT_GT(replaced, 50);
  EXPECT_GT(moved_runs, 0);
}

// Two zones of two racks of two nodes of eight devices.
topology::Cluster TwoZones() {
  topology::Description description;
  description.levels = {"zone", "rack"};
  description.domain_level = "rack";
  for (int i = 0; i < 8; ++i) {
    topology::Node node = {.name = absl::StrCat("n", i), .kind = "h100", .devices = 8};
    for (int device = 0; device < 8; ++device) node.free.push_back(device);
    node.at = {absl::StrCat("z", i / 4), absl::StrCat("r", i / 2)};
    description.nodes.push_back(node);
  }
  return *topology::Cluster::Make(description);
}

Shape Data(int64_t ranks, std::vector<TopologyConstraint> topology) {
  Shape shape;
  shape.degrees = {1, 1, 1, 1, ranks, 1};
  shape.device = "h100";
  shape.topology = std::move(topology);
  return shape;
}

std::string NodesOfRuns(const Placement& placement, size_t run) {
  std::string text;
  for (size_t rank = 0; rank < placement.ranks.size(); rank += run) {
    std::set<int> nodes;
    for (size_t i = rank; i < rank + run; ++i) nodes.insert(placement.ranks[i].node);
    absl::StrAppend(&text, text.empty() ? "" : " | ", absl::StrJoin(nodes, " "));
  }
  return text;
}

TEST(Runs, LieInsideGroupsThatPlainPlacementWouldStraddle) {
  const topology::Cluster cluster = TwoZones();
  Occupancy occupancy = Occupancy::Ideal(cluster);
  occupancy.free[1] = 0xf;  // rack 0 has 12 devices free
  const auto placed = Place(cluster, occupancy, Data(32, {{16, "rack"}}));
  ASSERT_TRUE(placed.has_value());
  EXPECT_TRUE(Validate(cluster, occupancy, Data(32, {{16, "rack"}}), *placed).ok());
  EXPECT_FALSE(Place(cluster, occupancy, Data(64, {{16, "rack"}})).has_value());
  EXPECT_FALSE(Place(cluster, occupancy, Data(48, {{16, "rack"}, {48, "zone"}})).has_value());
}

TEST(Runs, PreferredOnesAreGivenUpFromTheLastOn) {
  const topology::Cluster cluster = TwoZones();
  const Occupancy occupancy = Occupancy::Ideal(cluster);
  const std::vector<TopologyConstraint> asked = {{16, "rack", true}, {48, "zone", true}};
  const auto placed = Place(cluster, occupancy, Data(48, asked));
  ASSERT_TRUE(placed.has_value());
  EXPECT_TRUE(Validate(cluster, occupancy, Data(48, {{16, "rack"}}), *placed).ok());
}

TEST(Runs, ALostNodeIsReplacedInItsRackElseTheRunMovesAsAWhole) {
  const topology::Cluster cluster = TwoZones();
  const Shape shape = Data(16, {{8, "rack"}});
  Placement old;
  old.order = Place(cluster, Occupancy::Ideal(cluster), shape)->order;
  old.kind = "h100";
  // Run 0: four ranks on each node of rack 0; run 1 likewise in rack 1. Node 1 is lost.
  for (int rank = 0; rank < 16; ++rank) old.ranks.push_back({rank / 4, rank % 4});
  for (int rank = 4; rank < 8; ++rank) old.ranks[rank] = {};
  Occupancy occupancy = Occupancy::Ideal(cluster);
  for (int node : {0, 2, 3}) occupancy.free[node] = 0xf0;
  occupancy.free[1] = 0;
  EXPECT_EQ(NodesOfRuns(*Replace(cluster, occupancy, shape, old, {}), 8), "0 | 2 3");
  occupancy.free[0] = 0;
  EXPECT_EQ(NodesOfRuns(*Replace(cluster, occupancy, shape, old, {}), 8), "2 3 | 2 3");
  for (int node : {2, 4, 5, 6, 7}) occupancy.free[node] &= 0x7;
  EXPECT_FALSE(Replace(cluster, occupancy, shape, old, {}).has_value());
}

TEST(Runs, RefusalsCountThem) {
  const topology::Cluster cluster = TwoZones();
  Occupancy occupancy = Occupancy::Ideal(cluster);
  Refusal refusal = WhyNot(cluster, occupancy, Data(48, {{24, "rack"}}));
  EXPECT_TRUE(refusal.infeasible);
  EXPECT_EQ(refusal.reason,
            "needs 2 runs of 24 ranks, each inside one rack; the whole cluster holds 0, even with "
            "every node healthy and free");
  occupancy.free[1] = occupancy.free[3] = 0xf;
  refusal = WhyNot(cluster, occupancy, Data(48, {{16, "rack"}}));
  EXPECT_FALSE(refusal.infeasible);
  EXPECT_EQ(refusal.reason, "needs 3 runs of 16 ranks, each inside one rack; what is free holds 2");
  EXPECT_THAT(refusal.starts_when, HasSubstr("room for 1 run of 16 ranks inside one rack"));
  refusal = WhyNot(cluster, occupancy, Data(16, {{16, "aisle"}}));
  EXPECT_TRUE(refusal.infeasible);
  EXPECT_THAT(refusal.reason, HasSubstr("has no such level (it has zone, rack and node)"));
}

}  // namespace
}  // namespace strata::scheduler
