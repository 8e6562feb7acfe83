#include "program/builder/residency.h"

#include <vector>

#include "common/rng.h"
#include "gtest/gtest.h"

namespace strata::program {
namespace {

// Forward and backward over `layers`, `passes` times.
std::vector<int> ThereAndBack(int layers, int passes) {
  std::vector<int> uses;
  for (int p = 0; p < passes; ++p) {
    for (int l = 0; l < layers; ++l) uses.push_back(l);
    for (int l = layers - 1; l >= 0; --l) uses.push_back(l);
  }
  return uses;
}

// Plays the plan: every use must find its layer in its place, and no fetch may fill a place that is
// still needed.
void CheckPlan(const std::vector<int>& uses, int resident, int moved) {
  const ResidencyPlan plan = PlanResidency(uses, resident, moved);
  std::vector<int> window(resident, -1);
  std::vector<int> last_use(resident, -1);  // of what is in the place, planned so far
  for (size_t u = 0; u < uses.size(); ++u) {
    EXPECT_LE(plan.before[u].size(), static_cast<size_t>(moved) * resident);
    for (const Fetch& fetch : plan.before[u]) {
      for (size_t later = u; later < static_cast<size_t>(fetch.use); ++later) {
        EXPECT_NE(plan.place_of_use[later], fetch.place) << "use " << later << " loses its layer";
      }
      EXPECT_GE(fetch.use, static_cast<int>(u));
      window[fetch.place] = fetch.layer;
    }
    ASSERT_GE(plan.place_of_use[u], 0);
    ASSERT_LT(plan.place_of_use[u], resident);
    EXPECT_EQ(window[plan.place_of_use[u]], uses[u]) << "use " << u;
  }
}

TEST(ResidencyTest, EveryUseFindsItsLayer) {
  for (int resident = 1; resident <= 5; ++resident) {
    for (int moved = 1; moved <= resident; ++moved) {
      for (int layers = 1; layers <= 8; ++layers)
        CheckPlan(ThereAndBack(layers, 2), resident, moved);
    }
  }
}

TEST(ResidencyTest, EveryUseFindsItsLayerInRandomOrders) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::vector<int> uses;
    for (uint64_t u = 0; u < 40; ++u)
      uses.push_back(static_cast<int>(common::MixBits(seed, u) % 9));
    CheckPlan(uses, 1 + static_cast<int>(seed % 4), 1);
    CheckPlan(uses, 4, 1 + static_cast<int>(seed % 4));
  }
}

TEST(ResidencyTest, PrefetchesAsFarAsTheWindowAllows) {
  const ResidencyPlan plan = PlanResidency({0, 1, 2, 3, 4}, 3, 1);
  EXPECT_EQ(plan.before[0].size(), 3u);  // layers 0, 1, 2 before the first use
  ASSERT_EQ(plan.before[1].size(), 1u);  // layer 3 as soon as layer 0 is done
  EXPECT_EQ(plan.before[1][0].layer, 3);
  EXPECT_EQ(plan.before[1][0].place, plan.place_of_use[0]);
}

TEST(ResidencyTest, MovesSeveralAtOnceWhenTheLastOfTheirSlotsIsFree) {
  const ResidencyPlan plan = PlanResidency({0, 1, 2, 3, 4, 5}, 4, 2);
  EXPECT_TRUE(plan.before[1].empty());
  ASSERT_EQ(plan.before[2].size(), 2u);  // 4 and 5, when 0 and 1 are done
  EXPECT_EQ(plan.before[2][0].layer, 4);
  EXPECT_EQ(plan.before[2][1].layer, 5);
}

TEST(ResidencyTest, WhatIsStillInTheWindowAtTheTurnIsNotFetchedAgain) {
  const ResidencyPlan plan = PlanResidency(ThereAndBack(5, 1), 3, 1);
  int fetches = 0;
  for (const auto& before : plan.before) fetches += static_cast<int>(before.size());
  EXPECT_EQ(fetches, 5 + 2);  // forward all; backward finds 4, 3 and 2 in the window
}

}  // namespace
}  // namespace strata::program
