// Recompute plans and frozen weights through the composer: what it is told by templates alone is
// enough for right programs, and memory is what the plans promise.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/optimizer/adamw.h"
#include "program/compose/composer.h"
#include "program/readers/memory.h"
#include "program/readers/verify.h"
#include "program/testing/toy_graph.h"

namespace strata {
namespace {

using Mode = model::RecomputePlan::Mode;

constexpr int64_t kLayers = 6;
constexpr int64_t kSequence = 64;

model::ModelSpec Spec() {
  model::ModelSpec spec;
  spec.layers = kLayers;
  spec.hidden = 32;
  spec.heads = 8;
  spec.kv_heads = 4;
  spec.head_size = 4;
  spec.ffn = 96;
  spec.vocab = 256;
  spec.context = 64;
  return spec;
}

model::EmitOptions Options(Mode mode, bool split = false) {
  model::EmitOptions options;
  options.sequence = kSequence;
  options.prefill_chunk = 0;
  options.split_backward = split;
  options.recompute.mode = mode;
  return options;
}

// One rank; ZeRO-3 over two; two stages with zero-bubble.
std::vector<program::Plan> Plans() {
  program::Plan one;
  one.global_batch = 4;
  one.virtual_shards = 1;
  one.scratch = program::ToyScratch;
  program::Plan sharded = one;
  sharded.groups.data = 2;
  sharded.groups.shard = 2;
  sharded.shard = program::ShardLevel::kParameters;
  sharded.virtual_shards = 2;
  program::Plan staged = one;
  staged.groups.pipeline = 2;
  staged.schedule = program::ScheduleKind::kZeroBubble;
  return {one, sharded, staged};
}

std::vector<program::StagePrograms> Compose(const model::EmitOptions& options,
                                            const program::Plan& plan) {
  const auto graph = model::EmitFamily(Spec(), options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  auto composed = program::Compose(
      *graph, plan, [](const program::ParameterSet& set, const program::UpdateRange& range) {
        return model::EmitAdamW(set, {}, range);
      });
  EXPECT_TRUE(composed.ok()) << composed.status();
  return composed.ok() ? *std::move(composed) : std::vector<program::StagePrograms>{};
}

void ExpectVerified(const model::EmitOptions& options, const program::Plan& plan) {
  const std::vector<program::StagePrograms> stages = Compose(options, plan);
  ASSERT_FALSE(stages.empty());
  std::vector<const program::ProgramSet*> sets;
  for (const program::StagePrograms& stage : stages) sets.push_back(&stage.set);
  const absl::Status status = program::Verify(sets, "train", {.sizes = stages.front().set.groups});
  EXPECT_TRUE(status.ok()) << status;
}

TEST(LlamaVariantsTest, EveryRecomputePlan_IsVerified) {
  for (const program::Plan& plan : Plans()) {
    const bool split = plan.groups.pipeline > 1;
    for (const Mode mode : {Mode::kSelective, Mode::kFull}) {
      model::EmitOptions options = Options(mode, split);
      ExpectVerified(options, plan);
      options.recompute.first_layer = 1;
      options.recompute.last_layer = 3;
      ExpectVerified(options, plan);
    }
    model::EmitOptions named = Options(Mode::kNone, split);
    named.recompute.save = {"gate_up", "norm1"};
    ExpectVerified(named, plan);
  }
}

// Bytes of the batch that a program of `stage` loads.
int64_t LoadedBytes(const program::StagePrograms& stage) {
  int64_t bytes = 0;
  for (const program::Program& program : stage.set.programs) {
    for (const program::Slot& slot : program.slots) {
      if (slot.klass == program::SlotClass::kBatch &&
          (slot.name == "tokens" || slot.name == "targets" || slot.name == "positions")) {
        bytes += slot.bytes;
      }
    }
  }
  return bytes;
}

TEST(LlamaVariantsTest, Documents_AreVerifiedAndEveryStageLoadsTheirPositions) {
  for (program::Plan plan : Plans()) {
    for (const program::Tier tier : {program::Tier::kHost, program::Tier::kDevice}) {
      plan.tier = tier;
      model::EmitOptions options = Options(Mode::kSelective, plan.groups.pipeline > 1);
      options.documents = true;
      ExpectVerified(options, plan);
      const int64_t rows = plan.global_batch / plan.groups.data * kSequence;
      for (const program::StagePrograms& stage : Compose(options, plan)) {
        EXPECT_EQ(LoadedBytes(stage), 3 * 4 * rows);
      }
    }
  }
}

TEST(LlamaVariantsTest, FrozenWeights_AreVerified) {
  for (const program::Plan& plan : Plans()) {
    for (const std::vector<std::string>& frozen :
         {std::vector<std::string>{"model.embed_tokens.weight"},
          std::vector<std::string>{"model.embed_tokens.weight", "model.layers.0.*",
                                   "model.layers.1.*"},
          std::vector<std::string>{"*.self_attn.*"},
          std::vector<std::string>{"model.layers.3.*"}}) {
      model::EmitOptions options = Options(Mode::kNone, plan.groups.pipeline > 1);
      options.frozen = frozen;
      ExpectVerified(options, plan);
    }
  }
}

int64_t PeakOfActivations(const model::EmitOptions& options) {
  const std::vector<program::StagePrograms> stages = Compose(options, Plans()[0]);
  if (stages.empty()) return -1;
  const program::MemoryReport report = program::ReadMemory(stages[0].set);
  const program::TierMemory& host = report.tiers[static_cast<int>(program::Tier::kHost)];
  return host.peak_by_class[static_cast<int>(program::SlotClass::kActivations)];
}

// At the end of the forward all layers but the one at work hold what they saved.
TEST(LlamaVariantsTest, Peak_FallsByWhatLayersNoLongerSave) {
  const int64_t none = PeakOfActivations(Options(Mode::kNone));
  const int64_t attention = kSequence * (8 * 4 + 8) * 4;
  const int64_t saved = attention + kSequence * (16 * 4 + 32 + 2 * 96 + 2) * 4;
  const int64_t selective = PeakOfActivations(Options(Mode::kSelective));
  const int64_t full = PeakOfActivations(Options(Mode::kFull));
  EXPECT_LE(selective, none - (kLayers - 1) * attention);
  EXPECT_LE(full, none - (kLayers - 1) * saved);
  EXPECT_GT(full, kLayers * kSequence * 32 * 4);  // inputs are kept
}

}  // namespace
}  // namespace strata
