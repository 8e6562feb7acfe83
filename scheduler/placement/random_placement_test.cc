// Random clusters and jobs: as cheap as exhaustive search where that is possible, valid everywhere.
//   --cases=N    small cases against exhaustive search
//   --valid=N    larger ones, only checked by the rules
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "scheduler/placement/brute_force.h"
#include "scheduler/placement/placement.h"
#include "scheduler/placement/random_cases.h"
#include "scheduler/placement/validate.h"

namespace strata::scheduler {
namespace {

int small_cases = 12000;
int large_cases = 2000;

std::string Described(const RandomCase& random) {
  std::string text =
      absl::StrCat("degrees ", absl::StrJoin(random.shape.degrees, " "), ", levels ",
                   absl::StrJoin(random.cluster.levels(), "/"), ", domain ",
                   random.cluster.domain_depth(), ", node link ", random.cluster.has_node_link());
  for (const auto& edge : random.shape.traffic) {
    absl::StrAppend(&text, "\n  traffic ", static_cast<int>(edge.pattern), " ", edge.next_bytes,
                    " ", edge.previous_bytes, " ", edge.closing);
  }
  for (const topology::Node& node : random.cluster.nodes()) {
    absl::StrAppend(&text, "\n  ", node.name, " ", absl::StrJoin(node.at, "/"), " ", node.devices,
                    " {", absl::StrJoin(node.free, ","), "} ", node.kind, " ", node.healthy);
  }
  return text;
}

LeastCost Vector(const Cost& cost) {
  LeastCost all = {static_cast<double>(cost.split_pipelines),
                   static_cast<double>(cost.split_contexts)};
  all.insert(all.end(), cost.bytes.begin(), cost.bytes.end());
  return all;
}

// Whether the job fits with any local index for each tensor coordinate: all maps tried.
bool HoldsUnevenly(const RandomCase& random) {
  const int64_t tensor = random.shape.degrees[0];
  const Occupancy occupancy = Occupancy::Now(random.cluster);
  const int64_t cells = random.shape.ranks() / tensor;
  int64_t maps = 1;
  for (int64_t t = 0; t < tensor; ++t) maps *= tensor;
  for (int64_t map = 0; map < maps; ++map) {
    std::vector<int> needed(tensor, 0);
    for (int64_t t = 0, rest = map; t < tensor; ++t, rest /= tensor) ++needed[rest % tensor];
    int64_t held = 0;
    for (const topology::Group& group : random.cluster.groups()) {
      if (group.depth != random.cluster.domain_depth()) continue;
      std::vector<int> free(tensor, 0);
      for (int node = group.first_node; node < group.end_node; ++node) {
        for (int d = 0; d < 64; ++d) free[d % tensor] += occupancy.free[node] >> d & 1;
      }
      int in_domain = 1000;
      for (int64_t i = 0; i < tensor; ++i) {
        if (needed[i] > 0) in_domain = std::min(in_domain, free[i] / needed[i]);
      }
      held += in_domain;
    }
    if (held >= cells) return true;
  }
  return false;
}

TEST(Place, OnSmallClustersIsAsCheapAsExhaustiveSearch) {
  int placed = 0;
  for (int seed = 0; seed < small_cases; ++seed) {
    const RandomCase random = SmallCase(seed);
    const Occupancy occupancy = Occupancy::Now(random.cluster);
    const auto least = LeastCostOf(random.cluster, occupancy, random.shape);
    const auto placement = Place(random.cluster, occupancy, random.shape);
    ASSERT_EQ(placement.has_value(), least || HoldsUnevenly(random))
        << "seed " << seed << ": " << Described(random);
    if (!placement) continue;
    const absl::Status valid = Validate(random.cluster, occupancy, random.shape, *placement);
    ASSERT_TRUE(valid.ok()) << "seed " << seed << ": " << valid << "\n" << Described(random);
    if (!least) continue;
    ++placed;
    const LeastCost cost = Vector(placement->cost);
    ASSERT_EQ(cost.size(), least->size());
    for (size_t i = 0; i < cost.size(); ++i) {
      ASSERT_NEAR(cost[i], (*least)[i], 1e-6)
          << "seed " << seed << ": " << absl::StrJoin(cost, " ") << " instead of "
          << absl::StrJoin(*least, " ") << "\n"
          << Described(random);
    }
  }
  EXPECT_GT(placed, small_cases / 3);
}

// Of the same devices no plain order is better, irregular as the cluster may be.
void ExpectNoWorseThanTheOrderOfTheTree(int seed) {
  const RandomCase random = LargeCase(seed);
  const auto placement = Place(random.cluster, Occupancy::Now(random.cluster), random.shape);
  if (!placement) return;
  for (const Comparison& plain : CompareOrders(random.cluster, random.shape, *placement)) {
    if (plain.name != "contiguous") continue;
    ASSERT_FALSE(Better(plain.cost, placement->cost))
        << "seed " << seed << ": " << absl::StrJoin(Vector(placement->cost), " ") << " and "
        << absl::StrJoin(Vector(plain.cost), " ") << "\n"
        << Described(random);
  }
}

TEST(Place, OnLargerClustersIsNeverWorseThanTheOrderOfTheTree) {
  for (int seed = 0; seed < large_cases; ++seed) {
    ExpectNoWorseThanTheOrderOfTheTree(seed);
    if (HasFatalFailure()) return;
  }
}

// Six tensor groups of three on nodes of four: the exact search makes groups that span nodes, and
// uses up its budget.
TEST(Place, WhereTheSearchStopsEarlyIsNeverWorseThanTheOrderOfTheTree) {
  ExpectNoWorseThanTheOrderOfTheTree(7446);
}

TEST(Place, OnLargerClustersObeysTheRules) {
  int placed = 0;
  for (int seed = 0; seed < large_cases; ++seed) {
    const RandomCase random = LargeCase(seed);
    const Occupancy occupancy = Occupancy::Now(random.cluster);
    const auto placement = Place(random.cluster, occupancy, random.shape);
    if (!placement) {
      const Refusal refusal = WhyNot(random.cluster, occupancy, random.shape);
      ASSERT_FALSE(refusal.reason.empty());
      ASSERT_EQ(refusal.infeasible, refusal.starts_when.empty());
      ASSERT_EQ(refusal.infeasible,
                !Place(random.cluster, Occupancy::Ideal(random.cluster), random.shape).has_value());
      continue;
    }
    ++placed;
    const absl::Status valid = Validate(random.cluster, occupancy, random.shape, *placement);
    ASSERT_TRUE(valid.ok()) << "seed " << seed << ": " << valid << "\n" << Described(random);
  }
  EXPECT_GT(placed, large_cases / 3);
}

}  // namespace
}  // namespace strata::scheduler

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    int* const count = absl::StartsWith(word, "--cases=")   ? &strata::scheduler::small_cases
                       : absl::StartsWith(word, "--valid=") ? &strata::scheduler::large_cases
                                                            : nullptr;
    if (count == nullptr || !absl::SimpleAtoi(word.substr(8), count)) {
      std::fprintf(stderr, "unknown argument %s\n", argv[i]);
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
