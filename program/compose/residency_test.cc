#include "program/compose/residency.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "common/rng.h"
#include "gtest/gtest.h"

namespace strata::program {
namespace {

// Forward and backward over `layers` sets of one byte, `passes` times.
std::vector<Need> ThereAndBack(int layers, int passes) {
  std::vector<Need> needs;
  const auto add = [&](int layer) { needs.push_back({static_cast<int>(needs.size()), layer, 1}); };
  for (int p = 0; p < passes; ++p) {
    for (int l = 0; l < layers; ++l) add(l);
    for (int l = layers - 1; l >= 0; --l) add(l);
  }
  return needs;
}

// Each use needs one or two of `sets` sets.
std::vector<Need> RandomNeeds(uint64_t seed, int sets) {
  std::vector<Need> needs;
  for (int use = 0; use < 40; ++use) {
    const int first = static_cast<int>(common::MixBits(seed, use) % sets);
    const int second = static_cast<int>(common::MixBits(seed + 1, use) % sets);
    for (const int set : {first, second}) {
      if (set == second && first == second && needs.size() > 0 && needs.back().use == use) continue;
      needs.push_back({use, set, 1 + set % 3});
    }
  }
  return needs;
}

// A fetch's bytes are present from its beginning to the last use of a need it serves.
struct Stay {
  int first = 0, last = 0;
  int64_t bytes = 0;
};
std::vector<Stay> StaysOf(const std::vector<Need>& needs, const ResidencyPlan& plan) {
  std::vector<Stay> stays;
  for (const Fetch& fetch : plan.fetches) {
    stays.push_back({fetch.before, fetch.before, needs[fetch.need].bytes});
  }
  for (size_t n = 0; n < needs.size(); ++n) {
    Stay& stay = stays[plan.fetch_of_need[n]];
    stay.last = std::max(stay.last, needs[n].use);
  }
  return stays;
}

void CheckPlan(const std::vector<Need>& needs, int64_t budget) {
  const ResidencyPlan plan = PlanResidency(needs, budget);
  ASSERT_EQ(plan.fetch_of_need.size(), needs.size());
  for (size_t n = 0; n < needs.size(); ++n) {
    const Fetch& fetch = plan.fetches[plan.fetch_of_need[n]];
    EXPECT_EQ(needs[fetch.need].set, needs[n].set) << "need " << n;
    EXPECT_LE(fetch.before, needs[n].use) << "need " << n;
  }
  EXPECT_TRUE(std::is_sorted(plan.fetches.begin(), plan.fetches.end(),
                             [](const Fetch& a, const Fetch& b) { return a.before < b.before; }));
  const std::vector<Stay> stays = StaysOf(needs, plan);
  for (int use = 0; use <= needs.back().use; ++use) {
    int64_t present = 0;
    for (const Stay& stay : stays) {
      if (stay.first <= use && use <= stay.last) present += stay.bytes;
    }
    EXPECT_LE(present, std::max(budget, BytesOfUsesInARow(needs, 1))) << "use " << use;
  }
}

TEST(ResidencyTest, EveryNeed_IsServedWithinTheBudget) {
  for (int layers = 1; layers <= 8; ++layers) {
    for (int64_t budget = 1; budget <= 10; ++budget) CheckPlan(ThereAndBack(layers, 2), budget);
  }
  for (uint64_t seed = 0; seed < 300; ++seed) {
    CheckPlan(RandomNeeds(seed, 9), static_cast<int64_t>(seed % 20));
  }
}

TEST(ResidencyTest, WithRoomForAll_EachSetIsFetchedOnceBeforeTheFirstUse) {
  const ResidencyPlan plan = PlanResidency(ThereAndBack(6, 3), 6);
  EXPECT_EQ(plan.fetches.size(), 6u);
  for (const Fetch& fetch : plan.fetches) EXPECT_EQ(fetch.before, 0);
}

// The way back begins with what is there: of n layers with room for k, k stay at each turn.
TEST(ResidencyTest, ThereAndBack_KeepsWhatIsUsedAgainFirst) {
  for (const int64_t room : {1, 2, 3}) {
    const ResidencyPlan plan = PlanResidency(ThereAndBack(6, 1), room);
    EXPECT_EQ(plan.fetches.size(), 12u - static_cast<size_t>(room)) << room;
  }
}

TEST(ResidencyTest, RoomForANeighbour_LetsFetchesBeginOneUseAhead) {
  const std::vector<Need> needs = ThereAndBack(6, 1);
  EXPECT_EQ(BytesOfUsesInARow(needs, 1), 1);
  EXPECT_EQ(BytesOfUsesInARow(needs, 2), 2);
  const ResidencyPlan plan = PlanResidency(needs, BytesOfUsesInARow(needs, 2));
  for (const Fetch& fetch : plan.fetches) {
    EXPECT_LT(fetch.before, std::max(1, needs[fetch.need].use)) << fetch.need;
  }
}

}  // namespace
}  // namespace strata::program
