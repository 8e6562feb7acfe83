#include "planner/performance/memory_estimate.h"

#include <algorithm>

#include "planner/performance/step_prediction.h"

namespace strata::planner {

double ActivationBytes(const TrainingShape& shape, const LayoutChoice& layout) {
  const double tensor = static_cast<double>(layout.tensor);
  const double tokens = static_cast<double>(layout.micro_batch * shape.sequence_length) /
                        static_cast<double>(layout.context);
  const double region = tokens / (layout.sequence_parallel ? tensor : 1);
  const double hidden = static_cast<double>(shape.hidden);
  if (layout.recompute == Recompute::kFull) return 2 * region * hidden;
  const double query = static_cast<double>(shape.heads * shape.head_dim) / tensor;
  const double keys = std::max(static_cast<double>(shape.kv_heads) / tensor, 1.0) *
                      static_cast<double>(shape.head_dim);
  double rows = tokens, ffn = static_cast<double>(shape.ffn) / tensor;
  if (shape.experts > 0) {
    rows = tokens / tensor * static_cast<double>(shape.experts_per_token);
    ffn = static_cast<double>(shape.expert_ffn);
  }
  // Two norms' inputs and outputs; queries, keys, values, the output of attention and its row sums;
  // the activation's inputs and output.
  const double norms = region * hidden * 2 * 4;
  const double attention =
      tokens * (2 * (2 * query + 2 * keys) + 4 * query / static_cast<double>(shape.head_dim));
  const double block = rows * ffn * 2 * (shape.gated ? 3 : 2);
  return norms + attention + block;
}

double MemoryEstimate(const TrainingShape& shape, const LayoutChoice& layout,
                      const StageParameters& parameters) {
  constexpr double kRuntime = 0.0;
  const double shards = static_cast<double>(layout.data * layout.context);
  const double held = parameters.dense + parameters.experts;
  const double sharded = layout.sharding == Sharding::kReplicated ? held : held / shards;
  const double states =
      (layout.offload == Offload::kNone || layout.offload == Offload::kActivations ? 12 * sharded
                                                                                   : 0);
  const double weights = 2 * (layout.sharding == Sharding::kZero3 ? sharded : held);
  const double gradients = 4 * (layout.sharding == Sharding::kZero3 ? sharded : held);
  const double layers = LayersOf(shape, layout).middle;
  const double pipeline = static_cast<double>(layout.pipeline);
  const double chunks = static_cast<double>(layout.chunks);
  // In flight on the first stage (arXiv:2205.05198, section 4.2.3).
  double in_flight = pipeline;
  if (layout.chunks > 1) in_flight = pipeline + (pipeline - 1) / chunks;
  in_flight = std::min(in_flight, static_cast<double>(layout.micro_batches()));
  const double activations = ActivationBytes(shape, layout) * layers * in_flight;
  const double tokens = static_cast<double>(layout.micro_batch * shape.sequence_length) /
                        static_cast<double>(layout.context);
  // Logits in 16 and 32 bits and their gradient, on the last stage only.
  const double logits = layout.pipeline > 1 ? 0
                                            : tokens * static_cast<double>(shape.vocab) /
                                                  static_cast<double>(layout.tensor) * 8;
  return weights + gradients + states + activations + logits + kRuntime;
}

}  // namespace strata::planner
