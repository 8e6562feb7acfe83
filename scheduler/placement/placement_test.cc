#include "scheduler/placement/placement.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::scheduler {
namespace {

using planner::Dimension;
using planner::EdgeTraffic;
using topology::Cluster;
using topology::Description;

// Zones of racks of nodes, each node a domain.
Cluster Tree(int zones, int racks, int nodes, int devices) {
  Description description;
  description.levels = {"zone", "rack", "domain"};
  for (int z = 0; z < zones; ++z) {
    for (int r = 0; r < racks; ++r) {
      for (int n = 0; n < nodes; ++n) {
        const std::string name = "n" + std::to_string((z * racks + r) * nodes + n);
        topology::Node node = {.name = name, .kind = "h100", .devices = devices};
        for (int d = 0; d < devices; ++d) node.free.push_back(d);
        node.at = {"z" + std::to_string(z), "r" + std::to_string(r), name};
        description.nodes.push_back(node);
      }
    }
  }
  auto cluster = Cluster::Make(description);
  EXPECT_TRUE(cluster.ok()) << cluster.status();
  return *std::move(cluster);
}

Shape MakeShape(planner::Degrees degrees) {
  Shape shape;
  shape.degrees = degrees;
  shape.device = "h100";
  shape.traffic[0] = {.next_bytes = 1000, .messages = 1};
  shape.traffic[1] = {.next_bytes = 100, .messages = 1};
  shape.traffic[3] = {.pattern = EdgeTraffic::Pattern::kLine, .next_bytes = 5, .previous_bytes = 5};
  shape.traffic[4] = {.next_bytes = 50};
  shape.traffic[5] = {.next_bytes = 20};
  return shape;
}

TEST(Place, PutsTensorGroupsOnOneNodeByLocalIndex) {
  Cluster cluster = Tree(2, 2, 2, 8);
  cluster.SetState(0, {1, 2, 3, 4}, true);
  const auto placement = Place(cluster, Occupancy::Now(cluster), MakeShape({4, 1, 1, 1, 1, 1}));
  ASSERT_TRUE(placement.has_value());
  EXPECT_THAT(placement->ranks,
              testing::ElementsAre(Device{0, 4}, Device{0, 1}, Device{0, 2}, Device{0, 3}));
}

TEST(Place, KeepsPipelinesInsideZonesAndOnlyDataCrosses) {
  const Cluster cluster = Tree(2, 2, 4, 8);
  const auto placement = Place(cluster, Occupancy::Now(cluster), MakeShape({8, 1, 1, 4, 4, 1}));
  ASSERT_TRUE(placement.has_value());
  EXPECT_EQ(placement->cost.split_pipelines, 0);
  // Two zones with two pipelines each: every ring of four crosses twice, for 4 stages and 8 rails.
  EXPECT_EQ(placement->cost.bytes[0], 2 * 50 * 4 * 8);
}

TEST(Place, SplitsAsFewPipelinesAsPossible) {
  Cluster cluster = Tree(3, 1, 6, 8);
  cluster.SetState(0, {}, true);
  cluster.SetState(6, {}, false);
  const auto placement = Place(cluster, Occupancy::Now(cluster), MakeShape({8, 1, 1, 4, 4, 1}));
  ASSERT_TRUE(placement.has_value());  // 5 + 5 + 6 cells: three whole pipelines, one in pieces
  EXPECT_EQ(placement->cost.split_pipelines, 1);
}

TEST(Place, WithoutEnoughCellsIsNothing) {
  Cluster cluster = Tree(1, 1, 4, 8);
  cluster.SetState(3, {0, 1, 2, 3, 4, 5}, true);
  const Shape shape = MakeShape({8, 1, 1, 1, 4, 1});
  EXPECT_FALSE(Place(cluster, Occupancy::Now(cluster), shape).has_value());
  const Refusal refusal = WhyNot(cluster, Occupancy::Now(cluster), shape);
  EXPECT_FALSE(refusal.infeasible);
  EXPECT_EQ(refusal.reason,
            "needs 4 whole cells of 8 h100 devices (tensor 8), each inside one domain; 3 are free: "
            "n3 has 6 of 8 free");
  EXPECT_EQ(refusal.starts_when, "starts when 2 more devices of n3 become free");
}

// An NVL72 rack of 18 trays; on ten of them the last device is broken.
Cluster DegradedRack() {
  const Cluster cluster = Tree(1, 1, 18, 4);
  Description description = cluster.ToDescription();
  for (size_t i = 0; i < description.nodes.size(); ++i) {
    description.nodes[i].at.back() = "nvl";
    if (i < 10) description.nodes[i].free = {0, 1, 2};
  }
  return *Cluster::Make(description);
}

TEST(Place, TakesRailsUnequallyWhereOneIsMostlyMissing) {
  const Cluster rack = DegradedRack();
  const Occupancy now = Occupancy::Now(rack);
  // 18, 18, 18 and 8 of the four local indices: three, three, two and none of them make a cell.
  for (const int64_t data : {4, 6}) {
    const auto placement = Place(rack, now, MakeShape({8, 1, 1, 1, data, 1}));
    ASSERT_TRUE(placement.has_value()) << data;
    std::vector<int> index(8, -1);
    for (size_t rank = 0; rank < placement->ranks.size(); ++rank) {
      int& known = index[rank % 8];
      if (known < 0) known = placement->ranks[rank].device;
      EXPECT_EQ(placement->ranks[rank].device, known);
    }
  }
  EXPECT_FALSE(Place(rack, now, MakeShape({8, 1, 1, 1, 7, 1})).has_value());
  EXPECT_THAT(WhyNot(rack, now, MakeShape({8, 1, 1, 1, 7, 1})).reason,
              testing::HasSubstr("6 are free"));
}

TEST(WhyNot, CountsCellsOfATensorDegreeThatDoesNotDivideTheNode) {
  const Cluster rack = DegradedRack();  // when healthy, 18 of each index: two, one, one and one
  const Refusal refusal = WhyNot(rack, Occupancy::Now(rack), MakeShape({5, 1, 1, 1, 10, 1}));
  EXPECT_THAT(refusal.reason, testing::HasSubstr("the whole cluster holds 9 (72 devices"));
  EXPECT_EQ(refusal.nearest->text, "data 5 instead of 10: 25 of 50 ranks");
}

TEST(WhyNot, NamesTheDevicesWhoseRailIsMissing) {
  Cluster cluster = Tree(1, 1, 3, 8);
  cluster.SetState(0, {0, 1, 2, 3, 4, 6}, true);  // with tensor 2: four even ones, two odd ones
  cluster.SetState(1, {0, 2, 4}, true);
  const Shape shape = MakeShape({2, 1, 1, 1, 7, 1});
  const Refusal refusal = WhyNot(cluster, Occupancy::Now(cluster), shape);
  EXPECT_EQ(refusal.starts_when,
            "starts when one of devices 5, 7 of n0 becomes free or one of devices 1, 3, 5, 7 of n1 "
            "becomes free");
  cluster.SetState(0, {0, 1, 2, 3, 4, 5}, true);
  cluster.SetState(1, {0, 1, 2, 3, 4, 5, 7}, true);
  EXPECT_THAT(WhyNot(cluster, Occupancy::Now(cluster), MakeShape({2, 1, 1, 1, 11, 1})).starts_when,
              testing::StartsWith("starts when 1 more device of n1 becomes free or 2 more devices "
                                  "of n0 become free"));
}

TEST(WhyNot, DoesNotWaitForDevicesThatAreFreeAlready) {
  Cluster cluster = Tree(1, 1, 4, 8);
  cluster.SetState(1, {0, 1, 2, 3, 4, 5, 6, 7}, false);
  cluster.SetState(2, {}, false);
  const auto starts_when = [&](int64_t data) {
    const Shape shape = MakeShape({1, 1, 1, 1, data, 1});
    return WhyNot(cluster, Occupancy::Now(cluster), shape).starts_when;
  };
  EXPECT_EQ(starts_when(20), "starts when n1 takes new ranks again");
  EXPECT_EQ(
      starts_when(32),
      "starts when n1 takes new ranks again and n2 takes new ranks again with all 8 devices free");
  cluster.SetState(0, {0, 1, 2, 3, 4, 5}, true);
  EXPECT_EQ(starts_when(16), "starts when 2 more devices become free or n1 takes new ranks again");
  EXPECT_EQ(starts_when(32),
            "starts when n1 takes new ranks again and n2 takes new ranks again with all 8 devices "
            "free and 2 "
            "more devices become free");
}

TEST(WhyNot, TellsDevicesThatAreLeftOverForTheirIndex) {
  const Cluster cluster = Tree(1, 1, 2, 3);
  Description description = cluster.ToDescription();
  for (topology::Node& node : description.nodes) node.at.back() = "d";
  const Cluster one = *Cluster::Make(description);  // four devices of even index, two of odd
  const Refusal refusal = WhyNot(one, Occupancy::Now(one), MakeShape({2, 1, 1, 1, 3, 1}));
  EXPECT_THAT(refusal.reason,
              testing::HasSubstr("holds 2 (6 devices in 1 domain, 2 of them left over by rounding "
                                 "down and because a tensor coordinate has one local index"));
}

TEST(WhyNot, NearestIsTheLargestDataDegreeThatTheJobMayHave) {
  const Cluster cluster = Tree(1, 1, 7, 8);
  Shape shape = MakeShape({8, 1, 1, 1, 12, 1});
  EXPECT_EQ(WhyNot(cluster, Occupancy::Now(cluster), shape).nearest->text,
            "data 6 instead of 12: 48 of 96 ranks");
  shape.other_data = {8, 7, 1};
  EXPECT_EQ(WhyNot(cluster, Occupancy::Now(cluster), shape).nearest->text,
            "data 7 instead of 12: 56 of 96 ranks");
}

TEST(WhyNot, OfAJobThatNeverFitsTellsTheArithmeticAndWhatWould) {
  const Cluster cluster = Tree(1, 1, 3, 6);
  const Refusal refusal = WhyNot(cluster, Occupancy::Now(cluster), MakeShape({4, 1, 1, 1, 4, 1}));
  EXPECT_TRUE(refusal.infeasible);
  EXPECT_EQ(refusal.reason,
            "needs 4 whole cells of 4 h100 devices (tensor 4), each inside one domain; the whole "
            "cluster holds 3 (18 devices in 3 domains, 6 of them left over by rounding down: n0: 6 "
            "devices make 1; n1: 6 devices make 1; n2: 6 devices make 1), even with every node "
            "healthy and free");
  ASSERT_TRUE(refusal.nearest.has_value());
  EXPECT_EQ(refusal.nearest->text, "data 2 instead of 4: 8 of 16 ranks");
}

}  // namespace
}  // namespace strata::scheduler
