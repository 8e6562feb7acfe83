// Programs with device and host tiers on a CPU rank, whose device memory is an arena of its own:
// the same bits as those of a program with one tier.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "model/initialize.h"
#include "program/compose/composer.h"
#include "worker/engine/engine.h"
#include "worker/engine/small_model.h"
#include "worker/engine/streamed_program.h"

namespace strata::worker {
namespace {

using program::Scalar;
using program::Tier;

constexpr int kSteps = 5;

// One micro-batch, and an embedding of its own: no gradient is added up from two places, which the
// two kinds of programs do in different orders.
program::LayerGraph Graph() {
  model::ModelSpec spec = SmallModel();
  spec.tied_embeddings = false;
  model::EmitOptions emission = SmallEmission();
  emission.micro_batch = kSmallBatch;
  return *model::EmitLlama(spec, emission);
}

program::ProgramSet OneTier(Tier tier) {
  program::Plan plan;
  plan.virtual_shards = 1;
  plan.global_batch = kSmallBatch;
  plan.gradient_clip = 1;
  plan.tier = tier;
  auto built = program::Compose(Graph(), plan, SmallUpdate);
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
  FillSmallRope(**engine, SlotNamed(programs, Graph().constants[0].name));
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

TEST(StreamedStep, StateOnTheHostGivesTheBitsOfStateOnTheDevice) {
  const Outcome expected = RunSteps(OneTier(Tier::kHost));
  EXPECT_LT(expected.losses.back(), expected.losses.front());
  EXPECT_TRUE(RunSteps(OneTier(Tier::kDevice)) == expected);
  for (const int resident : {1, 2, 3}) {
    const program::ProgramSet set = StreamedProgram(Graph(), resident);
    EXPECT_GT(set.arena_bytes[static_cast<int>(Tier::kDevice)], 0);
    EXPECT_GT(set.arena_bytes[static_cast<int>(Tier::kHost)], 0);
    const Outcome outcome = RunSteps(set);
    EXPECT_EQ(outcome.losses, expected.losses) << resident << " resident";
    EXPECT_EQ(outcome.norms, expected.norms) << resident << " resident";
    EXPECT_TRUE(outcome == expected) << resident << " resident";
  }
}

}  // namespace
}  // namespace strata::worker
