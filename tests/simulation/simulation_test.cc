// The controller's logic against everything that may happen, seed by seed.
//
//   STRATA_SEED=17 …/simulation_test      one seed, alone, telling its story
//   STRATA_SEEDS=10000 …/simulation_test  the first so many
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/simulation/cluster.h"

namespace strata::simulation {
namespace {

int FromEnvironment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

struct Range {
  int first = 1;
  int last = 2000;
};

Range Seeds() {
  const int alone = FromEnvironment("STRATA_SEED", 0);
  if (alone > 0) return {alone, alone};
  return {1, FromEnvironment("STRATA_SEEDS", 2000)};
}

// Every fourth seed has harmless faults only, and then nothing may be disturbed.
Options OptionsOf(int seed) {
  return {.seed = static_cast<uint64_t>(seed),
          .only_harmless = seed % 4 == 0,
          .trace = FromEnvironment("STRATA_SEED", 0) == seed};
}

TEST(Simulation, InvariantsHoldForEverySeed) {
  const Range seeds = Seeds();
  int failed = 0;
  for (int seed = seeds.first; seed <= seeds.last && failed < 5; ++seed) {
    const std::string violation = Cluster(OptionsOf(seed)).Run();
    if (violation.empty()) continue;
    ++failed;
    ADD_FAILURE() << "seed " << seed << " " << violation << "\n  alone: STRATA_SEED=" << seed
                  << " with --gtest_filter=Simulation.InvariantsHoldForEverySeed";
  }
}

// One cluster without other faults, killed at each of its commits, just before and just after.
TEST(Simulation, ADeathAtAnyCommitDisturbsNothing) {
  constexpr uint64_t kSeeds[] = {3, 8, 21};
  for (const uint64_t seed : kSeeds) {
    Cluster calm({.seed = seed, .die_at_commit = 1 << 30});
    ASSERT_EQ(calm.Run(), "") << "seed " << seed;
    const int commits = calm.controller.commits();
    ASSERT_GT(commits, 10);
    for (int commit = 1; commit <= commits; ++commit) {
      for (const bool after : {false, true}) {
        EXPECT_EQ(Cluster({.seed = seed, .die_at_commit = commit, .die_after = after}).Run(), "")
            << "seed " << seed << (after ? " after" : " before") << " commit " << commit;
      }
    }
  }
}

TEST(Simulation, TheSameSeedIsTheSameStory) {
  for (const int seed : {5, 6, 7}) {
    Cluster first(OptionsOf(seed)), second(OptionsOf(seed));
    EXPECT_EQ(first.Run(), second.Run());
    EXPECT_EQ(first.events.Now(), second.events.Now());
    EXPECT_EQ(first.controller.commits(), second.controller.commits());
  }
}

// The invariants see faults: each of these is found within a few hundred seeds.
class PlantedBugs : public ::testing::TestWithParam<PlantedBug> {};

TEST_P(PlantedBugs, IsFound) {
  constexpr int kSeeds = 300;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    const std::string violation =
        Cluster({.seed = static_cast<uint64_t>(seed), .bug = GetParam()}).Run();
    if (violation.empty()) continue;
    RecordProperty("found", "seed " + std::to_string(seed) + " " + violation);
    SUCCEED() << violation;
    return;
  }
  ADD_FAILURE() << "not found in " << kSeeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(All, PlantedBugs,
                         ::testing::Values(PlantedBug::kSpeaksBeforeDurable,
                                           PlantedBug::kLosesAWrite, PlantedBug::kForgetsTrainers,
                                           PlantedBug::kConfirmsTooEarly, PlantedBug::kIgnoresStop,
                                           PlantedBug::kInventsManifests),
                         [](const auto& info) {
                           return std::to_string(static_cast<int>(info.param));
                         });

}  // namespace
}  // namespace strata::simulation
