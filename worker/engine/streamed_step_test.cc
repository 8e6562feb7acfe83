// Programs with device, host and SSD tiers on a CPU rank, whose device memory is an arena of its
// own and whose SSD is real files: the same bits as those of a program with one tier.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "memory/ssd/block_buffer.h"
#include "memory/ssd/write_pacer.h"
#include "model/initialize.h"
#include "model/optimizer/adamw.h"
#include "program/compose/composer.h"
#include "program/readers/verify.h"
#include "worker/engine/engine.h"
#include "worker/engine/small_model.h"

namespace strata::worker {
namespace {

using program::Scalar;
using program::Tier;

constexpr int kSteps = 5;
// Of a long run, counted from 1; the first and the last update follow one.
const std::vector<int64_t> kOverflows = {1, 17, 18, 49};

program::LayerGraph Graph(bool tied, int64_t micro_batch) {
  model::ModelSpec spec = SmallModel();
  spec.tied_embeddings = tied;
  model::EmitOptions emission = SmallEmission();
  emission.micro_batch = micro_batch;
  return *model::EmitFamily(spec, emission);
}

program::Template SmallUpdate(const program::ParameterSet& set, const program::UpdateRange& range) {
  return model::EmitAdamW(set, {}, range);
}

// The leaves of the tree, of two micro-batches each where there are fewer than samples.
program::Plan PlanOf(Tier tier, int64_t leaves) {
  program::Plan plan;
  plan.virtual_shards = leaves;
  plan.global_batch = kSmallBatch;
  plan.gradient_clip = 1;
  plan.tier = tier;
  return plan;
}

program::ProgramSet Build(const program::Plan& plan, bool tied) {
  const int64_t leaf = kSmallBatch / plan.virtual_shards;
  auto built = program::Compose(Graph(tied, leaf > 1 ? leaf / 2 : 1), plan, SmallUpdate);
  EXPECT_TRUE(built.ok()) << built.status();
  return std::move((*built)[0].set);
}

struct Outcome {
  std::vector<double> losses, norms;  // of steps that were applied
  std::vector<std::vector<float>> parameters;
  bool operator==(const Outcome&) const = default;
};

int SlotNamed(const program::ProgramSet& set, const std::string& name) {
  const auto slot = std::find_if(set.slots.begin(), set.slots.end(),
                                 [&](const program::Slot& slot) { return slot.name == name; });
  EXPECT_NE(slot, set.slots.end()) << name;
  return static_cast<int>(slot - set.slots.begin());
}

Outcome RunSteps(program::ProgramSet set, int64_t steps = kSteps,
                 const std::vector<int64_t>& overflows = {}) {
  Outcome outcome;
  TextHost host(0, {});
  host.applied = 0;
  host.overflow_steps = overflows;
  device::ThreadPool pool(2);
  EngineOptions options;
  options.pool = &pool;
  options.host = &host;
  options.ssd = {.paths = {{.directory = testing::TempDir()}}};
  auto engine = Engine::Create(std::move(set), options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  if (!engine.ok()) return outcome;
  const program::ProgramSet& programs = (*engine)->programs();
  FillSmallRope(**engine, SlotNamed(programs, Graph(true, 1).constants[0].name));
  for (const program::ParameterSet& parameters : programs.sets) {
    const int slot = SlotNamed(programs, parameters.name);
    const memory::BlockBuffer values(programs.slots[slot].bytes);
    std::memset(values.data(), 0, values.size());
    model::FillInitial(parameters, 1, 0, values.floats());
    const absl::Status status = (*engine)->slots().Write(slot, 0, 0, 0, values.bytes());
    EXPECT_TRUE(status.ok()) << status;
  }
  for (; host.step <= steps; ++host.step) {
    const absl::Status status = (*engine)->RunStep(0, host.applied);
    EXPECT_TRUE(status.ok()) << status;
    const bool overflowed = std::count(overflows.begin(), overflows.end(), host.step) > 0;
    EXPECT_EQ((*engine)->scalar(Scalar::kApply), overflowed ? 0.0 : 1.0) << host.step;
    if (overflowed) continue;
    ++host.applied;
    outcome.losses.push_back((*engine)->scalar(Scalar::kLoss));
    outcome.norms.push_back((*engine)->scalar(Scalar::kGradientNorm));
  }
  EXPECT_TRUE((*engine)->Drain().ok());
  for (const program::ParameterSet& parameters : programs.sets) {
    const int slot = SlotNamed(programs, parameters.name);
    const memory::BlockBuffer values(programs.slots[slot].bytes);
    const absl::Status status = (*engine)->slots().Read(slot, 0, host.applied, 0, values.bytes());
    EXPECT_TRUE(status.ok()) << status;
    outcome.parameters.emplace_back(values.floats().begin(), values.floats().end());
  }
  return outcome;
}

constexpr program::Place kHost = {.host = 1}, kSsd = {.ssd = 1};
constexpr program::Place kMixed = {.host = 0.3, .ssd = 0.4};

// Each class alone, all of them, and parts of each.
std::vector<program::Places> AllPlaces() {
  std::vector<program::Places> all;
  for (const program::Place& place : {kHost, kSsd}) {
    all.push_back({.parameters = place});
    all.push_back({.gradients = place});
    all.push_back({.optimizer = place});
    all.push_back({.activations = place});
    all.push_back({place, place, place, place});
  }
  all.push_back({kMixed, kMixed, kMixed, kMixed});
  all.push_back({.parameters = kHost, .gradients = kSsd});
  all.push_back({.parameters = kSsd, .optimizer = kHost});
  return all;
}

std::string Text(const program::Plan& plan) {
  std::string text =
      absl::StrCat("V ", plan.virtual_shards, " order ", static_cast<int>(plan.micro_order),
                   " policy ", static_cast<int>(plan.update), " stream ", plan.streaming.resident,
                   "/", plan.streaming.moved, " slabs ", plan.slabs, " places");
  const program::Places& places = plan.places;
  for (const program::Place& place :
       {places.parameters, places.gradients, places.optimizer, places.activations}) {
    absl::StrAppend(&text, " ", place.host, ",", place.ssd);
  }
  return text;
}

void ExpectSame(const program::Plan& plan, bool tied, const Outcome& expected) {
  SCOPED_TRACE(absl::StrCat(tied ? "tied, " : "", Text(plan)));
  const program::ProgramSet set = Build(plan, tied);
  EXPECT_EQ(set.arena(Tier::kSsd) > 0, plan.places.uses_ssd());
  const absl::Status verified = program::VerifyRank(set, set.programs[0], 0);
  ASSERT_TRUE(verified.ok()) << verified;
  const Outcome outcome = RunSteps(set);
  EXPECT_EQ(outcome.losses, expected.losses);
  EXPECT_EQ(outcome.norms, expected.norms);
  EXPECT_TRUE(outcome == expected);
}

// Steps clip; sums are those of the device wherever gradients wait.
TEST(StreamedStep, EveryPlaceOfEveryClassGivesTheBitsOfOneTier) {
  for (const bool tied : {false, true}) {
    for (const int64_t leaves : {1, 4, 8}) {
      const Outcome expected = RunSteps(Build(PlanOf(Tier::kHost, leaves), tied));
      EXPECT_LT(expected.losses.back(), expected.losses.front());
      program::Plan plan = PlanOf(Tier::kDevice, leaves);
      ExpectSame(plan, tied, expected);
      for (const program::Places& places : AllPlaces()) {
        plan.places = places;
        ExpectSame(plan, tied, expected);
      }
    }
  }
}

TEST(StreamedStep, EveryOrderAndWindowGivesTheBitsOfOneTier) {
  for (const int64_t leaves : {1, 8}) {
    const Outcome expected = RunSteps(Build(PlanOf(Tier::kHost, leaves), false));
    program::Plan plan = PlanOf(Tier::kDevice, leaves);
    for (const program::Place& place : {kHost, kSsd}) {
      plan.places = {place, place, place, place};
      for (const program::MicroOrder order :
           {program::MicroOrder::kDepthFirst, program::MicroOrder::kLayerFirst}) {
        plan.micro_order = order;
        for (const program::Streaming& streaming :
             std::vector<program::Streaming>{{1, 1}, {2, 1}, {2, 2}, {3, 2}, {9, 9}}) {
          plan.streaming = streaming;
          plan.slabs = streaming.resident == 1 ? program::kLeastSlabs : 8;
          plan.range_bytes = streaming.resident == 1 ? program::kRangeElements * 4 : 0;
          ExpectSame(plan, false, expected);
        }
      }
    }
  }
}

// Spooled updates are deferred ones; speculative ones of steps that do not clip are, too.
TEST(StreamedStep, EveryPolicyGivesTheBitsOfDeferredUpdates) {
  for (const bool tied : {false, true}) {
    for (const int64_t leaves : {1, 4}) {
      for (const program::UpdatePolicy policy :
           {program::UpdatePolicy::kSpooled, program::UpdatePolicy::kSpeculative}) {
        const bool speculative = policy == program::UpdatePolicy::kSpeculative;
        program::Plan plan = PlanOf(Tier::kHost, leaves);
        plan.gradient_clip = speculative ? 1e6 : 1;
        const Outcome expected = RunSteps(Build(plan, tied));
        plan.update = policy;
        if (speculative) ExpectSame(plan, tied, expected);
        plan.tier = Tier::kDevice;
        for (const program::Places& places : AllPlaces()) {
          if (!speculative && !places.gradients.beyond_device()) continue;
          plan.places = places;
          ExpectSame(plan, tied, expected);
        }
      }
    }
  }
}

// Steps clip, unless updates are speculative; those that overflow leave everything as it was.
TEST(StreamedStep, FiftyStepsOfWhichSomeOverflow_GiveTheBitsOfOneTier) {
  using program::UpdatePolicy;
  constexpr int64_t kMany = 50;
  for (const UpdatePolicy policy :
       {UpdatePolicy::kDeferred, UpdatePolicy::kSpooled, UpdatePolicy::kSpeculative}) {
    program::Plan plan = PlanOf(Tier::kHost, 4);
    if (policy == UpdatePolicy::kSpeculative) plan.gradient_clip = 1e6;
    const Outcome expected = RunSteps(Build(plan, true), kMany, kOverflows);
    EXPECT_EQ(expected.losses.size(), kMany - kOverflows.size());
    EXPECT_LT(expected.losses.back(), 0.5 * expected.losses.front());
    plan.tier = Tier::kDevice;
    plan.update = policy;
    const std::pair<program::Place, program::Streaming> cases[] = {
        {kHost, {1, 1}}, {kSsd, {3, 2}}, {kMixed, {}}};
    for (const auto& [place, streaming] : cases) {
      plan.places = {place, place, place, place};
      plan.streaming = streaming;
      SCOPED_TRACE(Text(plan));
      EXPECT_TRUE(RunSteps(Build(plan, true), kMany, kOverflows) == expected);
    }
  }
}

TEST(StreamedStep, WhatMovesIsCountedAndWritesGetAPaceOfArenasThatAreLookedAt) {
  program::Plan plan = PlanOf(Tier::kDevice, 4);
  plan.places = {kSsd, kSsd, kSsd, kSsd};
  TextHost host(0, {});
  device::ThreadPool pool(1);
  EngineOptions options;
  options.pool = &pool;
  options.host = &host;
  options.ssd = {.paths = {{.directory = testing::TempDir()}}};
  options.fixed_arenas = true;
  auto created = Engine::Create(Build(plan, false), options);
  ASSERT_TRUE(created.ok()) << created.status();
  Engine& engine = **created;
  for (const Tier tier : {Tier::kDevice, Tier::kHost}) {
    const memory::PageReport& pages = engine.pages(tier);
    EXPECT_EQ(pages.bytes, engine.arena_bytes(tier));
    EXPECT_TRUE(pages.locked_bytes == pages.bytes || !pages.lacks.empty());
  }
  EXPECT_EQ(engine.pages(Tier::kSsd).bytes, 0);
  const auto state_bytes = [&](memory::SsdClass request_class) {
    return engine.ssd()->io().bytes[static_cast<int>(request_class)];
  };
  EXPECT_EQ(engine.ssd()->write_rate(), 0);
  int64_t written = 0, read = 0;
  for (int step = 0; step < kSteps; ++step, ++host.step) {
    ASSERT_TRUE(engine.RunStep(0, step).ok());
    const StepMetrics& metrics = engine.metrics();
    written += metrics.moved[static_cast<int>(program::Stream::kSsdWrite)];
    read += metrics.moved[static_cast<int>(program::Stream::kSsdRead)];
    EXPECT_GT(metrics.moved[static_cast<int>(program::Stream::kFetch)], 0);
    double stalled = 0;
    for (const double seconds : metrics.stalled) stalled += seconds;
    EXPECT_NEAR(stalled, metrics.exposed_communication(), 1e-9);
    const bool paced = step + 1 >= memory::WritePacer::kUnpacedSteps;
    EXPECT_GE(engine.ssd()->write_rate(), paced ? memory::IoScheduler::kSlowestWriteRate : 0);
  }
  ASSERT_TRUE(engine.Drain().ok());
  EXPECT_GT(written, 0);
  EXPECT_LE(written, state_bytes(memory::SsdClass::kStateWrite)) << "in whole blocks";
  EXPECT_GT(read, 0);
}

TEST(StreamedStep, BytesOnSsdWithoutAPathAreRefused) {
  program::Plan plan = PlanOf(Tier::kDevice, 1);
  plan.places.optimizer = kSsd;
  TextHost host(0, {});
  device::ThreadPool pool(1);
  EngineOptions options;
  options.pool = &pool;
  options.host = &host;
  EXPECT_EQ(Engine::Create(Build(plan, false), options).status().message(),
            "the programs keep bytes on SSD, and no path was given");
}

}  // namespace
}  // namespace strata::worker
