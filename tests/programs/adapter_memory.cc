#include "tests/programs/adapter_memory.h"

#include <utility>

#include "common/status_macros.h"
#include "model/families/families.h"
#include "model/optimizer/adamw.h"
#include "program/compose/composer.h"

namespace strata::testing {

using program::SlotClass;

int64_t AdapterMemory::weights_and_state() const {
  int64_t bytes = 0;
  for (const SlotClass klass :
       {SlotClass::kParameters, SlotClass::kGradients, SlotClass::kOptimizer}) {
    bytes += memory.peak_by_class[static_cast<size_t>(klass)];
  }
  return bytes;
}

absl::StatusOr<AdapterMemory> MemoryOfAdapters8B(std::optional<program::DType> quantised) {
  // Grattafiori et al., "The Llama 3 Herd of Models", 2024, table 3.
  const model::ModelSpec spec{.layers = 32,
                              .hidden = 4096,
                              .heads = 32,
                              .kv_heads = 8,
                              .head_size = 128,
                              .ffn = 14336,
                              .vocab = 128256,
                              .context = 8192};
  model::EmitOptions options;
  options.sequence = 2048;
  options.prefill_chunk = 0;
  options.recompute.mode = model::RecomputePlan::Mode::kFull;
  options.lora = {16, 32, {"all-linear"}, quantised};
  ASSIGN_OR_RETURN(program::LayerGraph graph, model::EmitFamily(spec, options));
  AdapterMemory result;
  // 4.127 bits; 4 bits and an f32 for 64 weights; a byte, with a scale for 4,096 weights or more.
  if (quantised) {
    result.each = *quantised == program::DType::kNf4      ? 0.516
                  : *quantised == program::DType::kNf4F32 ? 0.5625
                                                          : 1.001;
  }
  for (const program::ParameterSet& set : graph.sets) {
    const bool is_quantised = program::IsQuantised(set.type);
    (is_quantised    ? result.quantised
     : set.trainable ? result.trained
                     : result.frozen) += set.parameters();
  }
  program::Plan plan;
  plan.virtual_shards = 1;
  plan.global_batch = 1;
  plan.gradient_clip = 1;
  ASSIGN_OR_RETURN(
      const std::vector<program::StagePrograms> stages,
      program::Compose(std::move(graph), plan,
                       [](const program::ParameterSet& set, const program::UpdateRange& range) {
                         return model::EmitAdamW(set, {}, range);
                       }));
  result.memory = program::ReadMemory(stages[0].set).tiers[static_cast<size_t>(plan.tier)];
  return result;
}

}  // namespace strata::testing
