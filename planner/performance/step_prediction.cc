#include "planner/performance/step_prediction.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "planner/performance/kernels.h"
#include "planner/performance/links.h"
#include "planner/performance/memory_estimate.h"

namespace strata::planner {
namespace {

// One micro-batch on one stage.
struct Stage {
  PassCost forward, backward;
  double total() const { return forward.total() + backward.total(); }
};

struct Stages {
  Stage middle, last;
  const Stage& slowest() const { return last.total() > middle.total() ? last : middle; }
};

Stages StagesOf(const TrainingShape& shape, const LayoutChoice& layout, const LayerCost& cost) {
  const StageLayers layers = LayersOf(shape, layout);
  Stages stages;
  stages.middle = {layers.middle * cost.forward, layers.middle * cost.backward};
  stages.last = {layers.last * cost.forward, layers.last * cost.backward};
  stages.last.forward += cost.head_forward;
  stages.last.backward += cost.head_backward;
  if (layout.pipeline == 1) stages.middle = stages.last;
  return stages;
}

// Of a parameter as it is gathered.
double GatheredBytes(const Machine& machine, const LayoutChoice& layout) {
  const double given = machine.software.gathered_bytes;
  return layout.precision == Precision::kFp32 ? std::max(given, WidthOf(layout.precision)) : given;
}

GroupShape ShardGroup(const Machine& machine, const LayoutChoice& layout) {
  return GroupOf(machine, &RankMapLinks::data, layout.sharing(), layout.tensor);
}

// Of hybrid sharding: the sums of gradients, which each group has of its shards, are summed over
// the groups.
double ReplicaSeconds(const Machine& machine, const LayoutChoice& layout,
                      const StageParameters& parameters) {
  if (layout.replicas == 1) return 0;
  const GroupShape group =
      GroupOf(machine, &RankMapLinks::replicas, layout.replicas, layout.tensor * layout.sharing());
  const double shard =
      (parameters.dense + parameters.experts) / static_cast<double>(layout.sharing());
  return CollectiveSeconds(machine, Collective::kAllReduce, group,
                           shard * machine.software.gradient_bytes);
}

// Gathers of parameters and reductions of gradients once a step, beside the first forward and the
// last backward. A rank's chunks are reduced as they finish, so one of them is never hidden.
double DataSecondsPerStep(const Machine& machine, const LayoutChoice& layout,
                          const StageParameters& parameters, const Stage& stage) {
  const Software& software = machine.software;
  const GroupShape group = ShardGroup(machine, layout);
  const double held = parameters.dense + parameters.experts;
  if (layout.sharding == Sharding::kReplicated && !software.data_overlap) {
    return CollectiveSeconds(machine, Collective::kAllReduce, group,
                             held * software.gradient_bytes);
  }
  const double reduce = CollectiveSeconds(machine, Collective::kReduceScatter, group,
                                          held * software.gradient_bytes) +
                        ReplicaSeconds(machine, layout, parameters);
  const double gather = CollectiveSeconds(machine, Collective::kAllGather, group,
                                          held * GatheredBytes(machine, layout));
  if (!software.data_overlap) return reduce + gather;
  const double chunks = static_cast<double>(std::max<int64_t>(layout.chunks, 4));
  const double backward = stage.backward.compute() * (1 - 1 / chunks);
  const double forward = stage.forward.compute() * (1 - 1 / chunks);
  const double hidden =
      std::min(reduce * (1 - 1 / chunks), backward) + std::min(gather * (1 - 1 / chunks), forward);
  return reduce + gather - hidden + kContention * hidden;
}

// Fully sharded, without a pipeline or where it moves as much: every micro-batch gathers each layer
// before its forward and its backward and scatters its gradients after (arXiv:2304.11277, section
// 3); one layer ahead, so a pass takes as long as the slower of both.
double DataSecondsPerMicroBatch(const Machine& machine, const TrainingShape& shape,
                                const LayoutChoice& layout, const LayerCost& cost,
                                const StageParameters& parameters) {
  const Software& software = machine.software;
  const GroupShape group = ShardGroup(machine, layout);
  const double layers = LayersOf(shape, layout).middle;
  const double held = (parameters.dense + parameters.experts) / layers;
  const double count = software.collectives_per_layer;
  const double gather = count * CollectiveSeconds(machine, Collective::kAllGather, group,
                                                  held * GatheredBytes(machine, layout) / count);
  const double reduce = count * CollectiveSeconds(machine, Collective::kReduceScatter, group,
                                                  held * software.gradient_bytes / count);
  const bool kept = layout.sharding == Sharding::kZero2;  // parameters, from forward to backward
  const double forward_moves = kept && !software.zero2_gathers_each ? 0 : gather;
  const double backward_moves = reduce + (kept ? 0 : gather);
  if (!software.data_overlap) return layers * (forward_moves + backward_moves);
  const auto exposed = [](double moved, double computed) {
    return std::max(0.0, moved - computed) + kContention * std::min(moved, computed);
  };
  return layers * (exposed(forward_moves, cost.forward.total()) +
                   exposed(backward_moves, cost.backward.total())) +
         forward_moves + reduce;
}

// Beside that, once a step: zero2's whole parameters, under the first forward, where they are not
// gathered each time; and the gradients of context ranks that share nothing.
double DataSecondsBeside(const Machine& machine, const LayoutChoice& layout,
                         const StageParameters& parameters, const Stage& stage) {
  const Software& software = machine.software;
  const double held = parameters.dense + parameters.experts;
  double seconds = 0;
  if (layout.sharding == Sharding::kZero2 && !software.zero2_gathers_each) {
    const double gather =
        CollectiveSeconds(machine, Collective::kAllGather, ShardGroup(machine, layout),
                          held * GatheredBytes(machine, layout));
    seconds += std::max(0.0, gather - (software.data_overlap ? stage.forward.compute() : 0));
  }
  if (!layout.context_shares) {
    const bool parts = layout.sharding != Sharding::kReplicated;
    const double bytes =
        held * software.gradient_bytes / (parts ? static_cast<double>(layout.sharing()) : 1);
    seconds += CollectiveSeconds(
        machine, Collective::kAllReduce,
        GroupOf(machine, &RankMapLinks::context, layout.context, layout.tensor), bytes);
  }
  return seconds;
}

// Beside that, hybrid: once a step, layer by layer under the last backward as far as its own
// collectives leave room; the last layer's is never hidden.
double ExposedReplicaSeconds(const Machine& machine, const TrainingShape& shape,
                             const LayoutChoice& layout, const LayerCost& cost,
                             const StageParameters& parameters) {
  const double sums = ReplicaSeconds(machine, layout, parameters);
  if (!machine.software.data_overlap) return sums;
  const double layers = LayersOf(shape, layout).middle;
  const Software& software = machine.software;
  const GroupShape group = ShardGroup(machine, layout);
  const double held = (parameters.dense + parameters.experts) / layers;
  const double moved = CollectiveSeconds(machine, Collective::kReduceScatter, group,
                                         held * software.gradient_bytes) +
                       CollectiveSeconds(machine, Collective::kAllGather, group,
                                         held * GatheredBytes(machine, layout));
  const double room = layers * std::max(0.0, cost.backward.compute() - moved);
  const double hidden = std::min(sums * (1 - 1 / layers), room);
  return sums - hidden + kContention * hidden;
}

// Of an update's bytes those of the gradient that its norm reads.
constexpr double kNormBytes = 4;

// By the device, or as by it where host and device are one memory; where the host has the states,
// the norm alone.
double OptimizerSeconds(const Machine& machine, const LayoutChoice& layout,
                        const StageParameters& parameters) {
  double elements = parameters.dense + parameters.experts;
  double narrow = 0;
  if (layout.precision != Precision::kHalf && layout.precision != Precision::kFp32) {
    narrow = elements * 4;  // cast once a step, and transposed
  }
  if (layout.sharding != Sharding::kReplicated) {
    elements /= static_cast<double>(layout.sharing());
  }
  const bool on_host = !layout.unified && !machine.network.host_is_device &&
                       Has(layout.offload, Offload::kOptimizer);
  const double bytes = elements * (on_host ? kNormBytes : layout.update_bytes);
  return (bytes + narrow) / (machine.gpu.memory_rate * machine.calibration.memory);
}

// Updates of states on the host, the norm apart. They go on under the next step, whose first
// forward waits for each layer's.
double HostUpdateSeconds(const Machine& machine, const LayoutChoice& layout, double elements,
                         const Stage& stage) {
  if (machine.network.host_memory_rate <= 0 || machine.network.host_is_device) return 0;
  const double bytes = elements * (layout.update_bytes - kNormBytes);
  return std::max(0.0, bytes / machine.network.host_memory_rate - stage.forward.compute());
}

// Layers that are at home on the host, fetched for the forward and for the backward of each
// micro-batch, one layer ahead; and accumulators of gradients there, which every micro-batch but
// the first adds to: they come with the backward's parameters, and leave the other way.
double StreamSeconds(const LayoutChoice& layout, const StageParameters& parameters,
                     const Stage& stage, double rate) {
  const double held = parameters.dense + parameters.experts;
  const double micro_batches = static_cast<double>(layout.micro_batches());
  const double shards = static_cast<double>(layout.sharing());
  double fetched = 0, added = 0;
  if (Has(layout.offload, Offload::kParameters)) {
    fetched = held * WidthOf(layout.precision) / (layout.sharding == Sharding::kZero3 ? shards : 1);
  }
  if (Has(layout.offload, Offload::kGradients)) {
    const bool shared = layout.sharding == Sharding::kZero2 || layout.sharding == Sharding::kZero3;
    added = held * 4 / (shared ? shards : 1);
  }
  const auto exposed = [rate](double bytes, double compute) {
    return std::max(0.0, bytes / rate - compute);
  };
  return micro_batches * exposed(fetched, stage.forward.compute()) +
         exposed(fetched, stage.backward.compute()) +
         (micro_batches - 1) * exposed(fetched + added, stage.backward.compute());
}

// What the host's link or the disks add beyond the time that hides them: states in and out once a
// step (a fetch of 12 bytes per element and the way back), activations once per micro-batch each
// way.
double OffloadSeconds(const Machine& machine, const TrainingShape& shape,
                      const LayoutChoice& layout, const StageParameters& parameters,
                      const Stage& stage) {
  if (layout.offload == Offload::kNone || machine.network.host_rate <= 0) return 0;
  // Where host and device are one memory nothing is moved.
  const double rate = machine.network.host_is_device ? std::numeric_limits<double>::infinity()
                                                     : machine.network.host_rate;
  double exposed = 0;
  if (Has(layout.offload, Offload::kOptimizer)) {
    double elements = parameters.dense + parameters.experts;
    if (layout.sharding != Sharding::kReplicated) {
      elements /= static_cast<double>(layout.sharing());
    }
    // Pages of states that come hide the way back of those before; gradients and parameters stay.
    // Where host and device are one memory no byte of them moves.
    if (layout.unified) {
      const bool moves = machine.network.page_rate > 0 && !machine.network.host_is_device;
      exposed += moves ? elements * 12 / machine.network.page_rate : 0;
      elements = 0;
    }
    // Gradients leave in the last backward; the updated parameters come back after it.
    const bool disk = layout.disk && machine.network.disk_rate > 0;
    const double slowest = disk ? machine.network.disk_rate : rate;
    const double returned =
        Has(layout.offload, Offload::kParameters) ? 0 : WidthOf(layout.precision);
    exposed += std::max(0.0, elements * 4 / rate - stage.backward.compute()) +
               elements * (slowest < rate ? 12 / slowest : returned / rate) +
               HostUpdateSeconds(machine, layout, elements, stage) +
               StreamSeconds(layout, parameters, stage, rate);
  }
  if (Has(layout.offload, Offload::kActivations)) {
    const double bytes =
        ActivationBytes(machine.software, shape, layout) * LayersOf(shape, layout).middle;
    const double micro = std::max(0.0, bytes / rate - stage.forward.compute()) +
                         std::max(0.0, bytes / rate - stage.backward.compute());
    exposed += micro * static_cast<double>(layout.micro_batches());
  }
  return exposed;
}

double MessageOf(const Machine& machine, const TrainingShape& shape, const LayoutChoice& layout) {
  if (layout.pipeline <= 1) return 0;
  const double bytes = WidthOf(layout.precision) * static_cast<double>(layout.micro_batch) *
                       static_cast<double>(shape.sequence_length * shape.hidden) /
                       static_cast<double>(layout.context * layout.tensor);
  const int64_t stride = layout.devices() / layout.pipeline;
  return MessageSeconds(machine, GroupOf(machine, &RankMapLinks::pipeline, layout.pipeline, stride),
                        bytes);
}

// A table that the first and the last stage hold: its gradients, of which each may have shards, are
// summed between the two once they are all there.
double TiedSeconds(const Machine& machine, const TrainingShape& shape, const LayoutChoice& layout) {
  if (!shape.tied || layout.pipeline <= 1) return 0;
  const double table =
      static_cast<double>(shape.vocab * shape.hidden) / static_cast<double>(layout.tensor);
  const double parts =
      layout.sharding == Sharding::kReplicated ? 1 : static_cast<double>(layout.sharing());
  const int64_t apart = layout.devices() / layout.pipeline * (layout.pipeline - 1);
  return CollectiveSeconds(machine, Collective::kAllReduce,
                           GroupOf(machine, &RankMapLinks::pipeline, 2, apart),
                           table / parts * machine.software.gradient_bytes);
}

// What messages between stages add to the passes of one micro-batch in the steady state, where they
// go on beside the computation. Of each of its chunks a device sends activations and gradients:
// where these take longer than it computes, the links bound it.
double SteadyMessages(const Machine& machine, const LayoutChoice& layout, double message,
                      double computed) {
  const double stages = static_cast<double>(layout.pipeline);
  const double chunks = static_cast<double>(layout.chunks);
  // Of two stages each has an end of the model, which sends one way alone.
  const double sent = 2 * chunks - (layout.pipeline == 2 ? 1 : 0);
  const double exposed = std::max(0.0, sent * message - computed);
  if (!machine.software.pipeline_latency) return exposed;
  // A pass ends when those that are in flight have been all the way there and back.
  const double in_flight = layout.chunks > 1 ? chunks * stages + stages - 1 : stages;
  const double there_and_back = stages * computed + 2 * (stages * chunks - 1) * message;
  return std::max(exposed, chunks / in_flight * there_and_back - computed);
}

// One-forward-one-backward, interleaved over `chunks` (arXiv:2104.04473, section 2.2): the slowest
// stage works through all micro-batches; before and after, one micro-batch passes the others.
void AddPipeline(const Machine& machine, const TrainingShape& shape, const LayoutChoice& layout,
                 const Stages& stages, StepTerms& terms) {
  if (layout.pipeline <= 1) return;
  const double others = static_cast<double>(layout.pipeline - 1);
  const double chunks = static_cast<double>(layout.chunks);
  const double slowest = stages.slowest().total();
  const double sum = stages.middle.total() * others + stages.last.total();
  terms.bubble = (sum - slowest) / chunks;
  const double message = MessageOf(machine, shape, layout);
  const double steady = machine.software.pipeline_overlap
                            ? SteadyMessages(machine, layout, message, slowest)
                            : 2 * chunks * message;
  terms.pipeline_messages =
      2 * others * message + steady * static_cast<double>(layout.micro_batches());
}

}  // namespace

double StepTerms::total() const {
  return products + attention + memory_bound + launch + tensor + context + pipeline_messages +
         bubble + data + optimizer + offload + overhead + straggler;
}

StageLayers LayersOf(const TrainingShape& shape, const LayoutChoice& layout) {
  const int64_t parts = layout.pipeline * layout.chunks;
  if (shape.layers % parts != 0 && (shape.layers + 2) % parts == 0) {
    const int64_t layers = (shape.layers + 2) / parts * layout.chunks;
    return {static_cast<double>(layers),
            static_cast<double>(layers - (layout.pipeline > 1 ? 1 : 2))};
  }
  const int64_t layers = (shape.layers + parts - 1) / parts * layout.chunks;
  // What the others leave; where they leave nothing, stages are as uneven as the first is full.
  const int64_t left = shape.layers - layers * (layout.pipeline - 1);
  return {static_cast<double>(layers), static_cast<double>(left > 0 ? left : layers)};
}

StageParameters ParametersOf(const TrainingShape& shape, const LayoutChoice& layout) {
  const double hidden = static_cast<double>(shape.hidden);
  const double tensor = static_cast<double>(layout.tensor);
  const double heads = static_cast<double>((shape.heads + 2 * shape.kv_heads) * shape.head_dim);
  const double attention =
      hidden * heads + hidden * static_cast<double>(shape.heads * shape.head_dim);
  const double matrices = shape.gated ? 3 : 2;
  const StageLayers layers = LayersOf(shape, layout);
  StageParameters parameters;
  double layer = attention / tensor + 2 * hidden;
  if (shape.experts > 0) {
    layer += hidden * static_cast<double>(shape.experts);
    parameters.experts = layers.middle * matrices * hidden *
                         static_cast<double>(shape.expert_ffn * shape.experts) /
                         static_cast<double>(layout.expert);
  } else {
    layer += matrices * hidden * static_cast<double>(shape.ffn) / tensor;
  }
  const double embedding = hidden * static_cast<double>(shape.vocab) / tensor;
  // The first stage holds the embedding, the last the head.
  const double ends = layout.pipeline > 1 || shape.tied ? 1 : 2;
  parameters.dense = std::max(layers.middle, layers.last) * layer + ends * embedding;
  return parameters;
}

StepPrediction PredictStep(const Machine& machine, const TrainingShape& shape,
                           const LayoutChoice& layout, const LayerCost& cost) {
  const Stages stages = StagesOf(shape, layout, cost);
  const Stage& stage = stages.slowest();
  const StageParameters parameters = ParametersOf(shape, layout);
  const double micro_batches = static_cast<double>(layout.micro_batches());
  StepPrediction step;
  StepTerms& terms = step.terms;
  PassCost busy = stage.forward;
  busy += stage.backward;
  busy = micro_batches * busy;
  terms.products = busy.products;
  terms.attention = busy.attention;
  terms.memory_bound = busy.memory;
  terms.launch = busy.launch;
  terms.tensor = busy.tensor;
  terms.context = busy.context;
  AddPipeline(machine, shape, layout, stages, terms);
  const bool sharded = layout.sharding == Sharding::kZero2 || layout.sharding == Sharding::kZero3;
  if (sharded && (layout.pipeline == 1 || machine.software.pipeline_moves_each)) {
    terms.data =
        micro_batches * DataSecondsPerMicroBatch(machine, shape, layout, cost, parameters) +
        ExposedReplicaSeconds(machine, shape, layout, cost, parameters);
  } else {
    terms.data = DataSecondsPerStep(machine, layout, parameters, stage);
  }
  terms.data +=
      DataSecondsBeside(machine, layout, parameters, stage) + TiedSeconds(machine, shape, layout);
  terms.optimizer = OptimizerSeconds(machine, layout, parameters);
  terms.offload = OffloadSeconds(machine, shape, layout, parameters, stage);
  terms.overhead = machine.calibration.overhead_seconds;
  const double nodes =
      static_cast<double>(layout.devices()) / static_cast<double>(machine.network.node_devices);
  terms.straggler =
      nodes > 1 ? terms.total() * machine.calibration.straggler * std::log2(nodes) : 0;
  step.seconds = terms.total();
  step.memory_bytes = MemoryEstimate(machine, shape, layout, parameters);
  step.host_bytes = HostEstimate(machine, shape, layout, parameters);
  return step;
}

StepPrediction PredictStep(const Machine& machine, const TrainingShape& shape,
                           const LayoutChoice& layout) {
  LayerCost cost = CostOfLayer(machine, shape, KeyOf(layout));
  if (layout.listed_layers > 0) {
    LayerKey others = KeyOf(layout);
    others.recompute = Recompute::kNone;
    others.saved = {};
    cost = MeanCost(shape, layout, cost, CostOfLayer(machine, shape, others));
  }
  return PredictStep(machine, shape, layout, cost);
}

}  // namespace strata::planner
