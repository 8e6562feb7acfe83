// Programs with device and host tiers on a CPU rank, whose device memory is an arena of its own:
// the same bits as those of a program with one tier.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "model/initialize.h"
#include "model/optimizer/adamw.h"
#include "program/compose/composer.h"
#include "worker/engine/engine.h"
#include "worker/engine/small_model.h"

namespace strata::worker {
namespace {

using program::Scalar;
using program::Tier;

constexpr int kSteps = 5;

program::LayerGraph Graph(bool tied, int64_t micro_batch) {
  model::ModelSpec spec = SmallModel();
  spec.tied_embeddings = tied;
  model::EmitOptions emission = SmallEmission();
  emission.micro_batch = micro_batch;
  return *model::EmitFamily(spec, emission);
}

program::Template SmallUpdate(const program::ParameterSet& set, int64_t count) {
  return model::EmitAdamW(set, {}, count);
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
  std::vector<double> losses, norms;
  std::vector<std::vector<float>> parameters;
  bool operator==(const Outcome&) const = default;
};

int SlotNamed(const program::ProgramSet& set, const std::string& name) {
  const auto slot = std::find_if(set.slots.begin(), set.slots.end(),
                                 [&](const program::Slot& slot) { return slot.name == name; });
  EXPECT_NE(slot, set.slots.end()) << name;
  return static_cast<int>(slot - set.slots.begin());
}

Outcome RunSteps(program::ProgramSet set) {
  Outcome outcome;
  TextHost host(0, {});
  device::ThreadPool pool(2);
  EngineOptions options;
  options.pool = &pool;
  options.host = &host;
  auto engine = Engine::Create(std::move(set), options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  if (!engine.ok()) return outcome;
  const program::ProgramSet& programs = (*engine)->programs();
  FillSmallRope(**engine, SlotNamed(programs, Graph(true, 1).constants[0].name));
  for (const program::ParameterSet& parameters : programs.sets) {
    model::FillInitial(parameters, 1, 0,
                       FloatsOf(**engine, SlotNamed(programs, parameters.name), 0));
  }
  for (int step = 0; step < kSteps; ++step, ++host.step) {
    const absl::Status status = (*engine)->RunStep(0, step);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ((*engine)->scalar(Scalar::kApply), 1.0);
    outcome.losses.push_back((*engine)->scalar(Scalar::kLoss));
    outcome.norms.push_back((*engine)->scalar(Scalar::kGradientNorm));
  }
  EXPECT_TRUE((*engine)->Drain().ok());
  for (const program::ParameterSet& parameters : programs.sets) {
    const absl::Span<float> values =
        FloatsOf(**engine, SlotNamed(programs, parameters.name), kSteps);
    outcome.parameters.emplace_back(values.begin(), values.end());
  }
  return outcome;
}

// Leaves are combined at home in the tree in which they are combined on the device.
TEST(StreamedStep, StateOnTheHostGivesTheBitsOfStateOnTheDevice) {
  for (const bool tied : {false, true}) {
    for (const int64_t leaves : {1, 4, 8}) {
      const Outcome expected = RunSteps(Build(PlanOf(Tier::kHost, leaves), tied));
      EXPECT_LT(expected.losses.back(), expected.losses.front());
      program::Plan plan = PlanOf(Tier::kDevice, leaves);
      EXPECT_TRUE(RunSteps(Build(plan, tied)) == expected) << leaves << " leaves";
      plan.home = program::Home::kHost;
      for (const program::MicroOrder order :
           {program::MicroOrder::kDepthFirst, program::MicroOrder::kLayerFirst}) {
        // Tied, the two contributions of several micro-batches meet in another order.
        if (tied && order == program::MicroOrder::kLayerFirst && leaves < kSmallBatch) continue;
        plan.micro_order = order;
        for (const int64_t ahead : {-1, 0, 1 << 20}) {
          plan.prefetch_bytes = ahead;
          const program::ProgramSet set = Build(plan, tied);
          EXPECT_GT(set.arena_bytes[static_cast<int>(Tier::kDevice)], 0);
          EXPECT_GT(set.arena_bytes[static_cast<int>(Tier::kHost)], 0);
          const Outcome outcome = RunSteps(set);
          EXPECT_EQ(outcome.losses, expected.losses) << leaves << " leaves, ahead " << ahead;
          EXPECT_EQ(outcome.norms, expected.norms) << leaves << " leaves, ahead " << ahead;
          EXPECT_TRUE(outcome == expected) << leaves << " leaves, ahead " << ahead;
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata::worker
