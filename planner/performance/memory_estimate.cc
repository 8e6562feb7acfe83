#include "planner/performance/memory_estimate.h"

#include <algorithm>

#include "planner/performance/kernels.h"
#include "planner/performance/step_prediction.h"

namespace strata::planner {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kRuntimeBytes = 0.75 * kGiB;  // context, communicators' buffers

// Unified memory: master and moments of four ranges of 32 MiB in f32 (planner/fit/closed_form.cc).
constexpr double kRoomBytes = 4.0 * 3 * 32 * 1024 * 1024;
constexpr double kStateBytes = 12;  // of an element: the master and two moments

bool Replicated(const LayoutChoice& layout) { return layout.sharding == Sharding::kReplicated; }

double ShardsOf(const LayoutChoice& layout) {
  return Replicated(layout) ? 1 : static_cast<double>(layout.sharing());
}

bool StatesAway(const LayoutChoice& layout) {
  return layout.offload == Offload::kOptimizer || layout.offload == Offload::kAll;
}

bool ActivationsAway(const LayoutChoice& layout) {
  return layout.offload == Offload::kActivations || layout.offload == Offload::kAll;
}

// Micro-batches in flight on the first stage, in units of its layers (arXiv:2205.05198, section
// 4.2.3).
double InFlight(const LayoutChoice& layout) {
  const double pipeline = static_cast<double>(layout.pipeline);
  double in_flight = pipeline;
  if (layout.chunks > 1) in_flight += (pipeline - 1) / static_cast<double>(layout.chunks);
  return std::min(in_flight, static_cast<double>(layout.micro_batches()));
}

// Of an element in f32 the parameter is the master.
double StatesOf(const LayoutChoice& layout) {
  return kStateBytes - (layout.precision == Precision::kFp32 ? 4 : 0);
}

// Parameters, gradients, master copies and moments. Fully sharded: all of it; two layers at a
// time, the embedding and the head are whole, in 16 bits, with their gradients.
double StateBytes(const Machine& machine, const TrainingShape& shape, const LayoutChoice& layout,
                  const StageParameters& parameters) {
  const double shards = static_cast<double>(layout.sharing());
  const double held = parameters.dense + parameters.experts;
  const bool away = StatesAway(layout) && !machine.network.host_is_device;
  const double state_bytes = away ? 0 : StatesOf(layout);
  const double width = ValueBytes(layout.precision);
  const Software& software = machine.software;
  if (layout.sharding == Sharding::kZero2 && !software.zero2_gathers_each) {
    return held * width + held * (4 + state_bytes) / shards;
  }
  if (layout.sharding != Sharding::kZero3) {
    return held * (width + 4) + held * state_bytes / (Replicated(layout) ? 1 : shards);
  }
  const double shard = 4 + state_bytes + (kStateBytes - StatesOf(layout));
  // 32-bit parameters are the master copies. In a pipeline all stay gathered until its last
  // micro-batch.
  if (layout.pipeline > 1 && !software.pipeline_moves_each)
    return held * shard / shards + held * 2 * width;
  const double ends = (shape.tied || layout.pipeline > 1 ? 1 : 2) *
                      static_cast<double>(shape.vocab * shape.hidden) /
                      static_cast<double>(layout.tensor);
  const double layer = std::max(0.0, held - ends) / std::max(1.0, LayersOf(shape, layout).middle);
  return held * shard / shards + (2 * layer + ends) * 2 * width;
}

double ActivationsIn16Bits(const TrainingShape& shape, const LayoutChoice& layout) {
  const double tensor = static_cast<double>(layout.tensor);
  const double tokens = static_cast<double>(layout.micro_batch * shape.sequence_length) /
                        static_cast<double>(layout.context);
  const double region = tokens / (layout.sequence_parallel ? tensor : 1);
  const double hidden = static_cast<double>(shape.hidden);
  if (layout.recompute == Recompute::kFull) return 2 * region * hidden;
  const double head_dim = static_cast<double>(shape.head_dim);
  const double query = static_cast<double>(shape.heads) * head_dim / tensor;
  const double keys = std::max(static_cast<double>(shape.kv_heads) / tensor, 1.0) * head_dim;
  double rows = tokens, ffn = static_cast<double>(shape.ffn) / tensor;
  if (shape.experts > 0) {
    rows = tokens / tensor * static_cast<double>(shape.experts_per_token);
    ffn = static_cast<double>(shape.expert_ffn);
  }
  const double row_sums = 4 * query / head_dim;
  if (layout.recompute == Recompute::kOperators) {
    // The input, every other product's output (queries, values, one of the block's, the last).
    return 4 * region * hidden + tokens * (2 * (2 * query + keys) + row_sums) + 2 * rows * ffn;
  }
  // Two norms' inputs and outputs; queries, keys, values, the output of attention and its row sums;
  // the activation's inputs and output.
  const double norms = region * hidden * 2 * 4;
  const double attention = tokens * (2 * (2 * query + 2 * keys) + row_sums);
  const double block = rows * ffn * 2 * (shape.gated ? 3 : 2);
  return norms + attention + block;
}

}  // namespace

double ActivationBytes(const TrainingShape& shape, const LayoutChoice& layout) {
  return ActivationsIn16Bits(shape, layout) * ValueBytes(layout.precision) / 2;
}

double MemoryEstimate(const Machine& machine, const TrainingShape& shape,
                      const LayoutChoice& layout, const StageParameters& parameters) {
  const double layers = LayersOf(shape, layout).middle;
  const bool one_memory = machine.network.host_is_device;
  const bool away = ActivationsAway(layout) && !one_memory;
  const double kept = away ? std::min(2.0, layers) : layers * InFlight(layout);
  const double activations = ActivationBytes(shape, layout) * kept;

  const double tensor = static_cast<double>(layout.tensor);
  const double tokens = static_cast<double>(layout.micro_batch * shape.sequence_length) /
                        static_cast<double>(layout.context);
  const double logits = layout.pipeline > 1 ? 0
                                            : tokens * static_cast<double>(shape.vocab) / tensor *
                                                  machine.software.logit_bytes;
  // The gradient of the largest matrix, in 16 bits and converted to 32, before it is accumulated.
  const double ffn =
      static_cast<double>(shape.experts > 0 ? shape.expert_ffn * shape.experts : shape.ffn) /
      (shape.experts > 0 ? static_cast<double>(layout.expert) : tensor);
  const double gradient = 6 * static_cast<double>(shape.hidden) * ffn * (shape.gated ? 2 : 1);
  // Recomputed all at once, one layer's activations are there.
  double replayed = 0;
  if (layout.recompute == Recompute::kFull || layout.recompute == Recompute::kOperators) {
    LayoutChoice whole = layout;
    whole.recompute = Recompute::kNone;
    replayed = ActivationBytes(shape, whole);
  }
  double rooms = 0;
  if (StatesAway(layout) && layout.unified && !one_memory) {
    const double held = parameters.dense + parameters.experts;
    rooms = std::min(held / ShardsOf(layout) * StatesOf(layout), kRoomBytes);
  }
  return StateBytes(machine, shape, layout, parameters) + activations + logits + gradient +
         replayed + rooms + kRuntimeBytes;
}

double HostEstimate(const Machine& machine, const TrainingShape& shape, const LayoutChoice& layout,
                    const StageParameters& parameters) {
  if (machine.network.host_is_device) return 0;
  double bytes = 0;
  if (StatesAway(layout) && !layout.disk) {
    bytes += (parameters.dense + parameters.experts) / ShardsOf(layout) * StatesOf(layout);
  }
  if (ActivationsAway(layout)) {
    bytes += ActivationBytes(shape, layout) * LayersOf(shape, layout).middle * InFlight(layout);
  }
  return bytes;
}

}  // namespace strata::planner
