// The controller's logic and the agents' against everything that may happen, seed by seed.
//
//   STRATA_SEED=17 …/simulation_test      one seed, alone, telling its story
//   STRATA_SEEDS=50000 …/simulation_test  so many, from STRATA_FIRST on; up to STRATA_FAILURES fail
//   STRATA_SEED=17 STRATA_COMMIT=4 …      the controller killed at that commit, where it is at each
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <ostream>
#include <string>

#include "simulation/cluster.h"

namespace strata::simulation {
namespace {

int FromEnvironment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

constexpr int kSeeds = 4'000;

struct Range {
  int first = 1;
  int last = kSeeds;
};

// `usual`, unless the environment names one.
Range Seeds(const Range& usual) {
  const int alone = FromEnvironment("STRATA_SEED", 0);
  return alone > 0 ? Range{alone, alone} : usual;
}

// Every fourth seed has harmless faults only, and then nothing may be disturbed.
Options OptionsOf(int seed) {
  return {.seed = static_cast<uint64_t>(seed),
          .only_harmless = seed % 4 == 0,
          .trace = FromEnvironment("STRATA_SEED", 0) == seed};
}

TEST(Simulation, InvariantsHoldForEverySeed) {
  const int first = FromEnvironment("STRATA_FIRST", 1);
  const Range seeds = Seeds({first, first - 1 + FromEnvironment("STRATA_SEEDS", kSeeds)});
  const int most = FromEnvironment("STRATA_FAILURES", 5);
  int failed = 0;
  std::map<std::string, int> ends;  // of epochs, by cause
  for (int seed = seeds.first; seed <= seeds.last && failed < most; ++seed) {
    Cluster cluster(OptionsOf(seed));
    const std::string violation = cluster.Run();
    for (const auto& [name, job] : cluster.oracle.durable()) {
      for (const v1::JobEvent& event : job.events()) ++ends[event.cause()];
      const int64_t data = job.layout().data();
      if (data > 0 && data < job.spec().parallel().data()) ++ends["fewer ranks"];
    }
    if (violation.empty()) continue;
    ++failed;
    ADD_FAILURE() << "seed " << seed << " " << violation << "\n  alone: STRATA_SEED=" << seed
                  << " with --gtest_filter=Simulation.InvariantsHoldForEverySeed";
  }
  // What is to be tried is tried.
  for (const char* cause : {"preempted", "drained", "fewer ranks", "node_lost", "trainer_died",
                            "checkpoint_damaged", "checkpoint_unreadable"}) {
    std::printf("%d times: %s\n", ends[cause], cause);
    EXPECT_TRUE(ends[cause] > 0 || seeds.last - seeds.first < 1000) << cause;
  }
}

// Kills the controller at each commit of a run, just before and just after it. What comes before
// the death is the same in all of them.
void DieAtEveryCommit(Options options, int& deaths) {
  const int alone = FromEnvironment("STRATA_COMMIT", 0);
  Cluster undisturbed(options);
  EXPECT_EQ(undisturbed.Run(), "") << "seed " << options.seed;
  const int commits = undisturbed.controller.commits();
  for (int commit = 1; commit <= commits; ++commit) {
    if (alone > 0 && commit != alone) continue;
    for (const bool after : {false, true}) {
      options.die_at_commit = commit;
      options.die_after = after;
      options.trace = alone > 0;
      EXPECT_EQ(Cluster(options).Run(), "")
          << "seed " << options.seed << ", killed " << (after ? "after" : "before") << " commit "
          << commit << "\n  alone: STRATA_SEED=" << options.seed << " STRATA_COMMIT=" << commit;
      ++deaths;
    }
  }
}

constexpr Range kDeathSeeds = {1, 30};

TEST(Simulation, ADeathAtAnyCommitDisturbsNothing) {
  const Range seeds = Seeds(kDeathSeeds);
  int deaths = 0;
  for (int seed = seeds.first; seed <= seeds.last; ++seed) {
    DieAtEveryCommit({.seed = static_cast<uint64_t>(seed), .calm = true}, deaths);
  }
  std::printf("%d deaths\n", deaths);
  EXPECT_GT(deaths, 30 * (seeds.last - seeds.first));
}

TEST(Simulation, ADeathAtAnyCommitAmongOtherFaultsKeepsTheInvariants) {
  const Range seeds = Seeds(kDeathSeeds);
  int deaths = 0;
  for (int seed = seeds.first; seed <= seeds.last; ++seed) {
    DieAtEveryCommit({.seed = static_cast<uint64_t>(seed), .only_harmless = seed % 3 == 0}, deaths);
  }
  std::printf("%d deaths\n", deaths);
  EXPECT_GT(deaths, 30 * (seeds.last - seeds.first));
}

TEST(Simulation, TheSameSeedIsTheSameStory) {
  for (int seed = 1; seed <= 50; ++seed) {
    Options options = OptionsOf(seed);
    if (seed % 2 == 0) options.bug = PlantedBug::kLosesAWrite;  // also of those that fail
    std::string told, told_again;
    options.story = &told;
    Cluster first(options);
    options.story = &told_again;
    Cluster second(options);
    EXPECT_EQ(first.Run(), second.Run());
    EXPECT_TRUE(told == told_again) << "seed " << seed << " is told in two ways";
    EXPECT_GT(told.size(), 1000);
    EXPECT_EQ(first.events.Now(), second.events.Now());
    EXPECT_EQ(first.controller.commits(), second.controller.commits());
    EXPECT_EQ(first.random.Next(), second.random.Next());  // as many draws
  }
}

// The invariants see faults: each of these is found soon, and for what it is.
struct Planted {
  PlantedBug bug;
  const char* name;
  const char* violation;  // a regular expression
  uint64_t seeds = 300;   // within which it is found
  bool calm = false;      // where nothing else goes wrong
};

void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }

class PlantedBugs : public ::testing::TestWithParam<Planted> {};

TEST_P(PlantedBugs, IsFound) {
  for (uint64_t seed = 1; seed <= GetParam().seeds; ++seed) {
    const std::string violation =
        Cluster({.seed = seed, .bug = GetParam().bug, .calm = GetParam().calm}).Run();
    if (violation.empty()) continue;
    std::printf("found by seed %d: %s\n", static_cast<int>(seed), violation.c_str());
    EXPECT_THAT(violation, ::testing::ContainsRegex(GetParam().violation));
    return;
  }
  ADD_FAILURE() << "not found in " << GetParam().seeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(
    All, PlantedBugs,
    ::testing::Values(
        Planted{PlantedBug::kSpeaksBeforeDurable, "SpeaksBeforeDurable",
                "not durable|before it was durable|not recorded"},
        Planted{PlantedBug::kLosesAWrite, "LosesAWrite", "not what was made durable|is lost"},
        Planted{PlantedBug::kForgetsItsTerm, "ForgetsItsTerm", "a term that was begun"},
        Planted{PlantedBug::kForgetsTrainers, "ForgetsTrainers", "is used by|an orphan"},
        Planted{PlantedBug::kConfirmsTooEarly, "ConfirmsTooEarly", "is used by"},
        Planted{PlantedBug::kIgnoresStop, "IgnoresStop", "has not ended|an orphan|counts as held"},
        Planted{PlantedBug::kSwallowsAnswers, "SwallowsAnswers", "has not ended"},
        Planted{PlantedBug::kInventsManifests, "InventsManifests",
                "was never written|refuses the checkpoint"},
        Planted{PlantedBug::kInventsDamage, "InventsDamage", "given up, and is whole"},
        Planted{PlantedBug::kPublishesUnrecorded, "PublishesUnrecorded", "is not recorded"},
        Planted{PlantedBug::kRepeatsNothing, "RepeatsNothing", "has not ended"},
        Planted{PlantedBug::kGivesNoSignsOfLife, "GivesNoSignsOfLife", "without a cause"},
        Planted{PlantedBug::kEndsRanksAtHandOver, "EndsRanksAtHandOver", "without a cause"},
        Planted{PlantedBug::kLosesStepRecords, "LosesStepRecords", "step records are there"},
        Planted{PlantedBug::kForgetsToKeep, "ForgetsToKeep", "without a cause", 2'000},
        Planted{PlantedBug::kDropsFragments, "DropsFragments", "has not ended"},
        Planted{PlantedBug::kSeesNoHangs, "SeesNoHangs", "has not ended"},
        Planted{PlantedBug::kDropsOlderManifests, "DropsOlderManifests", "has not ended"},
        Planted{PlantedBug::kForgetsFragments, "ForgetsFragments", "has not ended|did not arrive",
                2'000},
        Planted{PlantedBug::kPublishesWhenOver, "PublishesWhenOver",
                "cuts the records|step records are there", 3'000},
        Planted{PlantedBug::kStartsBackupAsItIs, "StartsBackupAsItIs", "term|version"},
        Planted{PlantedBug::kSeesNoNewerCheckpoint, "SeesNoNewerCheckpoint",
                "when there is a checkpoint|starts anew beside"},
        Planted{PlantedBug::kTellsNoRanks, "TellsNoRanks", "when the store was put back", 10'000},
        Planted{PlantedBug::kDropsStoppingSteps, "DropsStoppingSteps", "nothing was in its way",
                300, /*calm=*/true},
        Planted{PlantedBug::kEndsRanksWhenRefused, "EndsRanksWhenRefused",
                "without a cause|has not ended", 2'000},
        Planted{PlantedBug::kKeepsErasedRecords, "KeepsErasedRecords", "was deleted, and is back",
                2'000},
        Planted{PlantedBug::kTakesAllForItsOwn, "TakesAllForItsOwn",
                "whose release does not know such", 2'000},
        Planted{PlantedBug::kForgetsUpdates, "ForgetsUpdates", "without a cause|has not ended"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace strata::simulation
