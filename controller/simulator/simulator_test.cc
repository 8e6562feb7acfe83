// Whole simulations. One seed alone: STRATA_SEED=17 …/simulator_test
#include "controller/simulator/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <ostream>

namespace strata::simulator {
namespace {

using ::testing::ContainsRegex;
using ::testing::IsEmpty;
using ::testing::SizeIs;

int FromEnvironment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

// One job on most nodes of a quiet cluster, struck often.
Options OneJob(int nodes, int job_nodes, double days, double failure_rate) {
  Options options;
  options.cluster = RegularCluster({.nodes = nodes, .devices = 1, .nodes_per_zone = 16});
  options.days = days;
  options.jobs = {BigJob(job_nodes, 1, days, 600, 10)};
  options.failure_rate = failure_rate;
  options.all_fragments = false;
  return options;
}

TEST(Simulate, AJobWithoutFailuresTakesItsStepsAndStalls) {
  Options options = OneJob(4, 4, 2, 0);
  options.jobs[0].steps = 600;  // ten checkpoints
  const Report report = Simulate(options);
  EXPECT_THAT(report.violation, IsEmpty());
  ASSERT_THAT(report.jobs, SizeIs(1));
  EXPECT_EQ(report.jobs[0].state, "SUCCEEDED");
  EXPECT_DOUBLE_EQ(report.jobs[0].productive_seconds, 6000);
  EXPECT_NEAR(report.jobs[0].life_seconds, 6000 + 10 * 10, 1e-6);
  EXPECT_NEAR(report.jobs[0].ettr, report.jobs[0].ettr_formula, 1e-9);
}

TEST(Simulate, TheSameSeedIsTheSameStory) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Options options = TroubledCluster(seed);
    const Report first = Simulate(options), second = Simulate(options);
    EXPECT_EQ(first.events, second.events);
    EXPECT_EQ(first.inputs, second.inputs);
    EXPECT_EQ(first.written_bytes, second.written_bytes);
    EXPECT_EQ(first.utilisation, second.utilisation);
    EXPECT_EQ(first.ettr, second.ettr);
    EXPECT_EQ(first.violation, second.violation);
  }
  EXPECT_NE(Simulate(TroubledCluster(1)).events, Simulate(TroubledCluster(2)).events);
}

// The loss of a life with n strikes is known to 1 / sqrt(n) of itself: of one life struck 700 times
// that is 2 % of an ETTR of 0.66, so the mean of many lives is compared.
TEST(Simulate, EttrIsWithinTwoPerCentOfTheFormula) {
  struct Case {
    double failure_rate, days;
    int seeds;
  };
  for (const Case& drawn : {Case{200, 28, 4}, Case{800, 8, 16}}) {
    double ettr = 0, formula = 0;
    for (int seed = 1; seed <= drawn.seeds; ++seed) {
      Options options = OneJob(128, 32, drawn.days, drawn.failure_rate);
      options.seed = seed;
      const Report report = Simulate(options);
      ASSERT_THAT(report.violation, IsEmpty());
      ASSERT_THAT(report.jobs, SizeIs(1));
      const JobReport& job = report.jobs[0];
      EXPECT_GT(job.interruptions, 500);
      EXPECT_LT(job.ettr, 0.95);
      ettr += job.ettr_unplanned / drawn.seeds;
      formula += job.ettr_formula / drawn.seeds;
    }
    EXPECT_NEAR(ettr / formula, 1, 0.02) << "failure rate " << drawn.failure_rate;
    std::printf("failure rate %g: ETTR %.4f, by the formula %.4f\n", drawn.failure_rate, ettr,
                formula);
  }
}

TEST(Simulate, InvariantsHoldForEverySeed) {
  constexpr int kSeeds = 100;
  const int alone = FromEnvironment("STRATA_SEED", 0);
  const int last = alone > 0 ? alone : FromEnvironment("STRATA_SEEDS", kSeeds);
  int64_t events = 0, preemptions = 0, restarts = 0;
  int failed = 0;
  for (int seed = alone > 0 ? alone : 1; seed <= last && failed < 5; ++seed) {
    const Report report = Simulate(TroubledCluster(static_cast<uint64_t>(seed)));
    events += report.events;
    preemptions += report.preemptions;
    for (const auto& [cause, times] : report.restarts_by_told_cause) restarts += times;
    if (report.violation.empty()) continue;
    ++failed;
    ADD_FAILURE() << "seed " << seed << ", event " << report.violation_event << ": "
                  << report.violation << "\n  again: STRATA_SEED=" << seed
                  << " or strata simulate --seeds 1 --seed " << seed;
  }
  std::printf("%ld events, %ld restarts, %ld preemptions and drains\n", static_cast<long>(events),
              static_cast<long>(restarts), static_cast<long>(preemptions));
  if (alone > 0) return;
  EXPECT_GT(restarts, last);
  EXPECT_GT(preemptions, last / 2);
}

struct Planted {
  PlantedBug bug;
  const char* name;
  const char* violation;  // a regular expression
};

void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }

class PlantedBugs : public ::testing::TestWithParam<Planted> {};

TEST_P(PlantedBugs, IsFound) {
  constexpr uint64_t kMostSeeds = 20;
  for (uint64_t seed = 1; seed <= kMostSeeds; ++seed) {
    Options options = TroubledCluster(seed);
    options.bug = GetParam().bug;
    const Report report = Simulate(options);
    if (report.violation.empty()) continue;
    std::printf("found by seed %d: %s\n", static_cast<int>(seed), report.violation.c_str());
    EXPECT_THAT(report.violation, ContainsRegex(GetParam().violation));
    return;
  }
  ADD_FAILURE() << "not found in " << kMostSeeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(
    All, PlantedBugs,
    ::testing::Values(
        Planted{PlantedBug::kLeavesOutARank, "LeavesOutARank", "trains with"},
        Planted{PlantedBug::kConfirmsTooEarly, "ConfirmsTooEarly", "still uses"},
        Planted{PlantedBug::kMisplacesNodes, "MisplacesNodes", "lies in two domains"},
        Planted{PlantedBug::kMisplacesZones, "MisplacesZones", "lie across zones|two domains"},
        Planted{PlantedBug::kCommitsForOthers, "CommitsForOthers", "have written none after"},
        Planted{PlantedBug::kForgetsReturns, "ForgetsReturns", "would fit, but waits"},
        Planted{PlantedBug::kSkipsCheckpoints, "SkipsCheckpoints", "steps back"},
        Planted{PlantedBug::kForgetsCheckpoints, "ForgetsCheckpoints",
                "although step|steps back|belongs to|trains with|is over"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace strata::simulator
