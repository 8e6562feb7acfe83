#include "scheduler/placement/step_time.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "planner/performance/catalog.h"
#include "planner/performance/step_prediction.h"
#include "scheduler/placement/llama3.h"

namespace strata::scheduler {
namespace {

using planner::Dimension;
using planner::EdgeTraffic;
using planner::RankMapLinks;

// Two zones of two racks of two nodes, each of eight devices and a domain.
topology::Cluster TwoZones() { return PodsOf(2, 2); }

Shape ShapeOf(planner::Degrees degrees) {
  Shape shape;
  shape.degrees = degrees;
  shape.device = "h100";
  for (EdgeTraffic& edge : shape.traffic) edge = {.next_bytes = 1};
  shape.traffic[3].pattern = EdgeTraffic::Pattern::kLine;
  return shape;
}

// Ranks fill nodes in topology order.
std::vector<Device> InOrder(int64_t ranks) {
  std::vector<Device> devices;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    devices.push_back({static_cast<int>(rank / 8), static_cast<int>(rank % 8)});
  }
  return devices;
}

const std::vector<Dimension> kCanonical = {Dimension::kTensor, Dimension::kContext,
                                           Dimension::kExpert, Dimension::kPipeline,
                                           Dimension::kData,   Dimension::kReplicate};

RankMapLinks LinksOf(const Shape& shape, const std::vector<Device>& ranks) {
  return *OnRankMap({}, TwoZones(), shape, kCanonical, ranks).rank_map;
}

TEST(OnRankMap, GroupsGoAtThePaceOfTheSlowestLinkTheyCross) {
  const RankMapLinks links = LinksOf(ShapeOf({4, 1, 1, 4, 4, 1}), InOrder(64));
  EXPECT_EQ(links.tensor.local, 4);
  EXPECT_EQ(links.tensor.network_rate, 0);
  // Stages of 4: two to a node, a pipeline has two neighbouring nodes, which make a rack.
  EXPECT_EQ(links.pipeline.network_rate, 50e9);
  EXPECT_EQ(links.pipeline.latency_seconds, 5e-6);
  EXPECT_EQ(links.pipeline.local, 3);  // one edge of three crosses
  // The ring of data goes over all four racks, and from zone to zone twice.
  EXPECT_EQ(links.data.local, 1);
  EXPECT_DOUBLE_EQ(links.data.network_rate, 50e9 / 7);
  EXPECT_EQ(links.data.latency_seconds, 2e-5);
}

TEST(OnRankMap, DataGroupsHoldTheContextInsideThem) {
  const RankMapLinks links = LinksOf(ShapeOf({2, 2, 1, 1, 4, 2}), InOrder(32));
  EXPECT_EQ(links.context.local, 2);
  // Four data ranks of two context ranks: two nodes, each with two data ranks.
  EXPECT_EQ(links.data.local, 4);
  EXPECT_EQ(links.data.network_rate, 50e9);
  EXPECT_EQ(links.replicas.local, 1);
  EXPECT_EQ(links.replicas.network_rate, 50e9);  // within the zone
  EXPECT_EQ(links.replicas.latency_seconds, 1e-5);
}

TEST(OnRankMap, LinksThatNobodyDescribedStayTheMachines) {
  topology::Description bare = TwoZones().ToDescription();
  bare.links.clear();
  planner::Machine machine;
  machine.network.domain_rate = 123;
  machine = OnRankMap(machine, *topology::Cluster::Make(bare), ShapeOf({8, 1, 1, 1, 8, 1}),
                      kCanonical, InOrder(64));
  EXPECT_EQ(machine.network.domain_rate, 123);
  EXPECT_EQ(machine.rank_map->data.local, 1);
  EXPECT_EQ(machine.rank_map->data.network_rate, 0);
}

planner::JobChoice Choice(const planner::LayoutChoice& layout) {
  planner::TrainingShape shape{.layers = 126,
                               .hidden = 16384,
                               .heads = 128,
                               .kv_heads = 8,
                               .head_dim = 128,
                               .ffn = 53248,
                               .gated = true,
                               .vocab = 128256,
                               .sequence_length = 8192};
  return {planner::Catalog::Shipped().Find({.gpu = "h100"})->machine, shape, layout};
}

TEST(StepTimes, WherePipelinesStayInsideZonesAStepIsFastest) {
  const topology::Cluster cluster = PodsOf(2, 64);  // 2,048 devices
  Shape shape = Llama3Shape();
  shape.degrees[static_cast<size_t>(Dimension::kData)] = 16;
  const auto placement = Place(cluster, Occupancy::Now(cluster), shape);
  ASSERT_TRUE(placement.has_value());
  const planner::JobChoice choice = Choice(
      {.tensor = 8, .pipeline = 16, .data = 16, .sequence_parallel = true, .global_batch = 256});
  std::map<std::string, double> seconds;
  for (const OrderTime& time : StepTimes(choice, cluster, shape, *placement)) {
    seconds[time.order] = time.seconds;
  }
  ASSERT_EQ(seconds.size(), 4u);
  EXPECT_LE(seconds["placed"], seconds["contiguous"]);
  EXPECT_LT(seconds["contiguous"], seconds["random"]);
  EXPECT_LT(seconds["placed"], seconds["hostname"]);
}

TEST(StepTimes, OfRanksThatFillDomainsInOrder_IsWhatTheClosedFormSays) {
  const topology::Cluster cluster = PodsOf(1, 16);
  Shape shape = ShapeOf({8, 1, 1, 1, 32, 1});
  const auto placement = Place(cluster, Occupancy::Now(cluster), shape);
  ASSERT_TRUE(placement.has_value());
  planner::JobChoice choice = Choice({.tensor = 8, .data = 32, .global_batch = 32});
  choice.machine.network.domain_rate = 450e9;
  choice.machine.network.network_rate = 50e9;
  choice.machine.network.network_efficiency = 1;
  const double plain = planner::PredictStep(choice.machine, choice.shape, choice.layout).seconds;
  const auto times = StepTimes(choice, cluster, shape, *placement);
  EXPECT_NEAR(times[0].seconds, plain, 0.01 * plain);
}

}  // namespace
}  // namespace strata::scheduler
