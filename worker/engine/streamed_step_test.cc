// Programs with device, host and SSD tiers on a CPU rank, whose device memory is an arena of its
// own and whose SSD is real files: the same bits as those of a program with one tier.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/units.h"
#include "gtest/gtest.h"
#include "memory/ssd/ssd_store.h"
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

// A slot's floats outside the engine, at a block's address.
class SlotFloats {
 public:
  explicit SlotFloats(const program::Slot& slot)
      : bytes_(slot.bytes),
        data_(static_cast<std::byte*>(std::aligned_alloc(
                  memory::kSsdBlockBytes, common::RoundUp(slot.bytes, memory::kSsdBlockBytes))),
              &std::free) {
    std::memset(data_.get(), 0, bytes_);
  }
  absl::Span<std::byte> bytes() { return absl::MakeSpan(data_.get(), bytes_); }
  absl::Span<float> floats() {
    return absl::MakeSpan(reinterpret_cast<float*>(data_.get()), bytes_ / 4);
  }

 private:
  const int64_t bytes_;
  const std::unique_ptr<std::byte, decltype(&std::free)> data_;
};

Outcome RunSteps(program::ProgramSet set) {
  Outcome outcome;
  TextHost host(0, {});
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
    SlotFloats values(programs.slots[slot]);
    model::FillInitial(parameters, 1, 0, values.floats());
    const absl::Status status = (*engine)->WriteSlot(slot, 0, 0, values.bytes());
    EXPECT_TRUE(status.ok()) << status;
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
    const int slot = SlotNamed(programs, parameters.name);
    SlotFloats values(programs.slots[slot]);
    const absl::Status status = (*engine)->ReadSlot(slot, 0, kSteps, values.bytes());
    EXPECT_TRUE(status.ok()) << status;
    outcome.parameters.emplace_back(values.floats().begin(), values.floats().end());
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

// Spooled updates clip as deferred ones do; speculative ones of steps that do not clip are those.
TEST(StreamedStep, StateOnSsdGivesTheBitsOfStateOnTheDevice) {
  for (const bool tied : {false, true}) {
    for (const int64_t leaves : {1, 4, 8}) {
      for (const program::UpdatePolicy policy :
           {program::UpdatePolicy::kSpooled, program::UpdatePolicy::kSpeculative}) {
        program::Plan plan = PlanOf(Tier::kHost, leaves);
        plan.gradient_clip = policy == program::UpdatePolicy::kSpooled ? 1 : 0;
        const Outcome expected = RunSteps(Build(plan, tied));
        plan.tier = Tier::kDevice;
        plan.home = program::Home::kSsd;
        plan.update = policy;
        for (const int64_t ahead : {-1, 0, 1 << 20}) {
          plan.prefetch_bytes = ahead;
          plan.slabs = ahead == 0 ? program::kLeastSlabs : 8;
          const program::ProgramSet set = Build(plan, tied);
          SCOPED_TRACE(absl::StrCat(tied ? "tied, " : "", "policy ", static_cast<int>(policy)));
          EXPECT_GT(set.arena_bytes[static_cast<int>(Tier::kSsd)], 0);
          const absl::Status verified = program::VerifyRank(set, set.programs[0], 0);
          EXPECT_TRUE(verified.ok()) << verified;
          const Outcome outcome = RunSteps(set);
          EXPECT_EQ(outcome.losses, expected.losses) << leaves << " leaves, ahead " << ahead;
          EXPECT_EQ(outcome.norms, expected.norms) << leaves << " leaves, ahead " << ahead;
          EXPECT_TRUE(outcome == expected) << leaves << " leaves, ahead " << ahead;
        }
      }
    }
  }
}

TEST(StreamedStep, StateOnSsdWithoutAPathIsRefused) {
  program::Plan plan = PlanOf(Tier::kDevice, 1);
  plan.home = program::Home::kSsd;
  plan.update = program::UpdatePolicy::kSpooled;
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
