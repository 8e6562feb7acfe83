#include "planner/performance/links.h"

#include <gtest/gtest.h>

#include "planner/performance/performance_testing.h"

namespace strata::planner {
namespace {

TEST(Groups, NeighboursStayInsideADomainAndStridesCrossIt) {
  const Machine machine = RoundMachine();
  const auto local = [&](int64_t ranks, int64_t stride) {
    return GroupOf(machine, &RankMapLinks::data, ranks, stride).local;
  };
  EXPECT_EQ(local(8, 1), 8);
  EXPECT_EQ(local(4, 4), 2);
  EXPECT_EQ(local(4, 8), 1);
  EXPECT_EQ(local(2, 1), 2);
}

TEST(Groups, ARankMapSaysWhereTheyAre) {
  Machine machine = RoundMachine();
  const auto gather = [&] {
    return CollectiveSeconds(machine, Collective::kAllGather,
                             GroupOf(machine, &RankMapLinks::data, 8, 1), 8e9);
  };
  const double in_order = gather();
  machine.rank_map.emplace();
  machine.rank_map->data = {.local = 8};
  EXPECT_EQ(gather(), in_order);
  // One member in each of eight domains, by links of 5 GB/s and 1 ms.
  machine.rank_map->data = {.local = 1, .network_rate = 5e9, .latency_seconds = 1e-3};
  EXPECT_NEAR(gather(), 6.6e-6 + 7 * 1e-3 + 7e9 / 5e9, 1e-9);
  EXPECT_NEAR(MessageSeconds(machine, GroupOf(machine, &RankMapLinks::data, 8, 1), 5e9),
              6.6e-6 + 1e-3 + 1, 1e-9);
}

TEST(Collectives, OneRankOrNoBytesTakeNoTime) {
  const Machine machine = RoundMachine();
  EXPECT_EQ(CollectiveSeconds(machine, Collective::kAllReduce, {1, 1}, 1e9), 0);
  EXPECT_EQ(CollectiveSeconds(machine, Collective::kAllGather, {8, 8}, 0), 0);
}

// Ring, simple protocol: 7 hops of 3.4 us after 6.6 us, and 7/8 of the bytes at 100 GB/s.
TEST(Collectives, LargeGatherInADomainIsLatencyAndBandwidthOfTheRing) {
  const Machine machine = RoundMachine();
  const double seconds = CollectiveSeconds(machine, Collective::kAllGather, {8, 8}, 8e9);
  EXPECT_NEAR(seconds, 6.6e-6 + 7 * 3.4e-6 + 7e9 / 100e9, 1e-9);
}

TEST(Collectives, MembersInADomainDriveAsManyNetworkCards) {
  const Machine machine = RoundMachine();
  const double one = CollectiveSeconds(machine, Collective::kReduceScatter, {16, 1}, 16e9);
  const double four = CollectiveSeconds(machine, Collective::kReduceScatter, {16, 4}, 16e9);
  EXPECT_NEAR(one, 15e9 / 10e9, 0.01);
  EXPECT_NEAR(four, 15e9 / 40e9, 0.01);
}

TEST(Collectives, SmallMessagesTakeTheLowLatencyProtocol) {
  const Machine machine = RoundMachine();
  const double seconds = CollectiveSeconds(machine, Collective::kAllGather, {8, 8}, 1024);
  EXPECT_NEAR(seconds, 6.6e-6 + 7 * 0.6e-6, 1e-6);
}

TEST(Collectives, ManyNodesReduceSmallVectorsByATree) {
  const Machine machine = RoundMachine();
  const double ring_steps = 2 * (1024 - 128) * 0.6e-6 + 2 * 127 * 2.7e-6;
  EXPECT_LT(CollectiveSeconds(machine, Collective::kAllReduce, {1024, 8}, 1024), ring_steps);
}

TEST(Collectives, AllReduceMovesTwiceWhatAGatherDoes) {
  const Machine machine = RoundMachine();
  const double gather = CollectiveSeconds(machine, Collective::kAllGather, {8, 8}, 8e9);
  const double reduce = CollectiveSeconds(machine, Collective::kAllReduce, {8, 8}, 8e9);
  EXPECT_NEAR(reduce, 2 * gather, 0.01 * reduce);
}

TEST(Collectives, ExchangeIsBoundByTheSlowerLevel) {
  const Machine machine = RoundMachine();
  const double seconds = CollectiveSeconds(machine, Collective::kAllToAll, {16, 8}, 16e9);
  EXPECT_NEAR(seconds, 8e9 / 10e9, 1e-3);
}

TEST(Messages, CrossTheNetworkUnlessTheGroupIsInside) {
  const Machine machine = RoundMachine();
  EXPECT_NEAR(MessageSeconds(machine, {2, 2}, 1e9), 1e9 / 100e9, 1e-4);
  EXPECT_NEAR(MessageSeconds(machine, {2, 1}, 1e9), 1e9 / 10e9, 1e-4);
}

}  // namespace
}  // namespace strata::planner
