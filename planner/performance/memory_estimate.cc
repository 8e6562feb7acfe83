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

bool StatesAway(const LayoutChoice& layout) { return Has(layout.offload, Offload::kOptimizer); }

bool ActivationsAway(const LayoutChoice& layout) {
  return Has(layout.offload, Offload::kActivations);
}

// Of an element in f32 the parameter is the master.
double StatesOf(const LayoutChoice& layout) {
  return kStateBytes - (layout.precision == Precision::kFp32 ? 4 : 0);
}

// Parameters, gradients, master copies and moments. Fully sharded: all of it; two layers at a
// time, the embedding and the head are whole, in 16 bits, with their gradients. So are those that
// are at home on the host.
double StateBytes(const Machine& machine, const TrainingShape& shape, const LayoutChoice& layout,
                  const StageParameters& parameters) {
  const double shards = static_cast<double>(layout.sharing());
  const double held = parameters.dense + parameters.experts;
  const auto is_away = [&](Offload bytes) {
    return Has(layout.offload, bytes) && !machine.network.host_is_device;
  };
  const double state_bytes = is_away(Offload::kOptimizer) ? 0 : StatesOf(layout);
  const double width = WidthOf(layout.precision);
  const Software& software = machine.software;
  const double ends = (shape.tied || layout.pipeline > 1 ? 1 : 2) *
                      static_cast<double>(shape.vocab * shape.hidden) /
                      static_cast<double>(layout.tensor);
  const double layer = std::max(0.0, held - ends) / std::max(1.0, LayersOf(shape, layout).middle);
  const double visiting = std::min(held, 2 * layer + ends);
  const double gradients = is_away(Offload::kGradients) ? 0 : 4;
  if (layout.sharding == Sharding::kZero3) {
    // 32-bit parameters are the master copies. In a pipeline all stay gathered until its last
    // micro-batch.
    const double shard = gradients + state_bytes +
                         (is_away(Offload::kParameters) ? 0 : kStateBytes - StatesOf(layout));
    if (layout.pipeline > 1 && !software.pipeline_moves_each)
      return held * shard / shards + held * 2 * width;
    return held * shard / shards + (2 * layer + ends) * 2 * width;
  }
  const double whole = (is_away(Offload::kParameters) ? visiting : held) * width;
  if (layout.sharding == Sharding::kZero2 && !software.zero2_gathers_each) {
    return whole + held * (gradients + state_bytes) / shards + (gradients == 0 ? visiting * 4 : 0);
  }
  return whole + (gradients == 0 ? visiting : held) * 4 +
         held * state_bytes / (Replicated(layout) ? 1 : shards);
}

// Of one micro-batch on one device.
struct Lengths {
  double tokens, region, hidden, query, keys, row_sums;
  double width;      // bytes of a value
  double rows, ffn;  // of the block's activation
};

Lengths LengthsOf(const TrainingShape& shape, const LayoutChoice& layout) {
  const double tensor = static_cast<double>(layout.tensor);
  const double head_dim = static_cast<double>(shape.head_dim);
  Lengths x;
  x.tokens = static_cast<double>(layout.micro_batch * shape.sequence_length) /
             static_cast<double>(layout.context);
  x.region = x.tokens / (layout.sequence_parallel ? tensor : 1);
  x.hidden = static_cast<double>(shape.hidden);
  x.width = WidthOf(layout.precision);
  x.query = static_cast<double>(shape.heads) * head_dim / tensor;
  x.keys = std::max(static_cast<double>(shape.kv_heads) / tensor, 1.0) * head_dim;
  x.row_sums = 4 * x.query / head_dim;
  x.rows = x.tokens;
  x.ffn = static_cast<double>(shape.ffn) / tensor;
  if (shape.experts > 0) {
    x.rows = x.tokens / tensor * static_cast<double>(shape.experts_per_token);
    x.ffn = static_cast<double>(shape.expert_ffn);
  }
  return x;
}

// What one layer's backward makes again is there at once.
double ReplayedBytes(const Software& software, const TrainingShape& shape,
                     const LayoutChoice& layout) {
  const Recompute recompute = layout.recompute;
  LayoutChoice whole = layout;
  whole.recompute = Recompute::kNone;
  if (software.saves_by_value && recompute != Recompute::kOperators) {
    const ByValue<double> values = ValueBytes(shape, layout);
    const double listed = SumOf(values, SavedBy(recompute, layout.saved));
    const double least =
        layout.listed_layers == 0 ? listed : std::min(listed, SumOf(values, kUsualValues));
    return SumOf(values, kAllValues) - least;
  }
  const bool all = recompute == Recompute::kFull || recompute == Recompute::kOperators;
  return all ? ActivationBytes(software, shape, whole) : 0;
}

}  // namespace

double MicroBatchesHeld(const LayoutChoice& layout) {
  const double pipeline = static_cast<double>(layout.pipeline);
  double in_flight = pipeline;
  if (layout.chunks > 1) in_flight += (pipeline - 1) / static_cast<double>(layout.chunks);
  return std::min(in_flight, static_cast<double>(layout.micro_batches()));
}

ByValue<double> ValueBytes(const TrainingShape& shape, const LayoutChoice& layout) {
  const Lengths x = LengthsOf(shape, layout);
  const double up = shape.gated ? 2 : 1;
  return {2 * x.width * x.region * x.hidden,
          x.width * x.tokens * (x.query + 2 * x.keys),
          x.tokens * (x.width * x.query + x.row_sums),
          x.width * x.region * x.hidden,
          x.width * x.rows * x.ffn * up,
          x.width * x.rows * x.ffn};
}

double ActivationBytes(const Software& software, const TrainingShape& shape,
                       const LayoutChoice& layout) {
  const Lengths x = LengthsOf(shape, layout);
  const double input = x.width * x.region * x.hidden;
  if (layout.recompute == Recompute::kOperators) {
    // The input, every other product's output (queries, values, one of the block's, the last).
    return 2 * input + x.tokens * (x.width * (2 * x.query + x.keys) + x.row_sums) +
           x.width * x.rows * x.ffn;
  }
  const ByValue<double> values = ValueBytes(shape, layout);
  if (software.saves_by_value) {
    const double share = layout.listed_share(shape.layers);
    return input + share * SumOf(values, SavedBy(layout.recompute, layout.saved)) +
           (1 - share) * SumOf(values, kUsualValues);
  }
  return layout.recompute == Recompute::kFull ? input : input + SumOf(values, kAllValues);
}

double MemoryEstimate(const Machine& machine, const TrainingShape& shape,
                      const LayoutChoice& layout, const StageParameters& parameters) {
  const double layers = LayersOf(shape, layout).middle;
  const bool one_memory = machine.network.host_is_device;
  const bool away = ActivationsAway(layout) && !one_memory;
  const double kept = away ? std::min(2.0, layers) : layers * MicroBatchesHeld(layout);
  const double activations = ActivationBytes(machine.software, shape, layout) * kept;

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
  double rooms = 0;
  if (StatesAway(layout) && layout.unified && !one_memory) {
    const double held = parameters.dense + parameters.experts;
    rooms = std::min(held / ShardsOf(layout) * StatesOf(layout), kRoomBytes);
  }
  return StateBytes(machine, shape, layout, parameters) + activations + logits + gradient +
         ReplayedBytes(machine.software, shape, layout) + rooms + kRuntimeBytes;
}

double HostEstimate(const Machine& machine, const TrainingShape& shape, const LayoutChoice& layout,
                    const StageParameters& parameters) {
  if (machine.network.host_is_device) return 0;
  double bytes = 0;
  if (StatesAway(layout) && !layout.disk) {
    bytes += (parameters.dense + parameters.experts) / ShardsOf(layout) * StatesOf(layout);
  }
  const double held = parameters.dense + parameters.experts;
  const bool gradients_shared =
      layout.sharding == Sharding::kZero2 || layout.sharding == Sharding::kZero3;
  if (Has(layout.offload, Offload::kGradients)) {
    bytes += held * 4 / (gradients_shared ? ShardsOf(layout) : 1);
  }
  if (Has(layout.offload, Offload::kParameters)) {
    bytes += held * WidthOf(layout.precision) /
             (layout.sharding == Sharding::kZero3 ? ShardsOf(layout) : 1);
  }
  if (ActivationsAway(layout)) {
    bytes += ActivationBytes(machine.software, shape, layout) * LayersOf(shape, layout).middle *
             MicroBatchesHeld(layout);
  }
  return bytes;
}

}  // namespace strata::planner
