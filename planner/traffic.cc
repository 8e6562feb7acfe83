#include "planner/traffic.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "model/parameter_count.h"

namespace strata::planner {
namespace {

using v1::ParallelSpec;
using v1::TrainSpec;

constexpr double kGradientBytes = 4;  // gradients are summed in f32

size_t Index(Dimension dimension) { return static_cast<size_t>(dimension); }
double DegreeOf(const Degrees& degrees, Dimension dimension) {
  return static_cast<double>(degrees[Index(dimension)]);
}

// What the formulas below are made of.
struct Sizes {
  double tensor, context, pipeline, data, replicate;
  double virtual_stages;
  double layers;         // of one pipeline rank, all its virtual stages together
  double parameters;     // of one rank before data sharding: all / (tensor · pipeline)
  double weight_bytes;   // of a gathered weight
  double element_bytes;  // of an activation
  double micro_batches;  // of one rank and step
  double tokens;         // of one rank and micro-batch: micro_batch · sequence / context
  double forwards;       // of a layer per micro-batch: 2 when all of it is recomputed
};

// fp8 gathers weights in one byte; what passes between layers stays bf16.
double WeightBytes(TrainSpec::Precision precision) {
  if (precision == TrainSpec::PRECISION_FP8) return 1;
  const bool narrow =
      precision == TrainSpec::PRECISION_BF16 || precision == TrainSpec::PRECISION_F16;
  return narrow ? 2 : 4;
}

Sizes SizesOf(const model::ModelSpec& model, const v1::JobSpec& job, const Degrees& degrees) {
  const ParallelSpec& parallel = job.parallel();
  const TrainSpec& train = job.train();
  Sizes sizes = {};
  sizes.tensor = DegreeOf(degrees, Dimension::kTensor);
  sizes.context = DegreeOf(degrees, Dimension::kContext);
  sizes.pipeline = DegreeOf(degrees, Dimension::kPipeline);
  sizes.data = DegreeOf(degrees, Dimension::kData);
  sizes.replicate = DegreeOf(degrees, Dimension::kReplicate);
  sizes.virtual_stages = static_cast<double>(std::max<int64_t>(1, parallel.virtual_stages()));
  sizes.layers = static_cast<double>(model.layers) / sizes.pipeline;
  sizes.parameters = model::ParameterCount(model) / (sizes.tensor * sizes.pipeline);
  sizes.weight_bytes = WeightBytes(train.precision());
  sizes.element_bytes = std::max(sizes.weight_bytes, 2.0);
  // `auto` (0) counts as one sequence: what passes per step does not depend on it, only messages.
  const auto micro_batch = static_cast<double>(std::max<int64_t>(1, train.micro_batch()));
  const auto batch = static_cast<double>(train.global_batch());
  sizes.micro_batches = std::max(1.0, batch / (micro_batch * sizes.data * sizes.replicate));
  sizes.tokens = micro_batch * static_cast<double>(train.sequence()) / sizes.context;
  sizes.forwards = parallel.recompute().mode() == v1::RecomputeSpec::MODE_FULL ? 2 : 1;
  return sizes;
}

// A ring all-gather, or reduce-scatter, of S bytes over n ranks sends S(n−1)/n over each edge in
// n−1 messages (Thakur et al., "Optimization of collective communication operations in MPICH",
// 2005, §4.1); an all-reduce is one after the other.
double PartOf(double ranks) { return (ranks - 1) / ranks; }

// Per layer and micro-batch one all-reduce after attention and one after the feed-forward layer,
// forward and backward (Shoeybi et al., "Megatron-LM", 2019, §3), or as many reduce-scatters and
// all-gathers with sequence parallelism (Korthikanti et al., 2022, §4.2.2: the same bytes):
//   2·(forwards + 1) · 2(n−1)/n · tokens·hidden · element bytes.
// Nothing can go on before they end: all of it is exposed.
EdgeTraffic TensorTraffic(const Sizes& sizes, double hidden) {
  const double reductions = 2 * (sizes.forwards + 1) * sizes.layers * sizes.micro_batches;
  const double bytes = sizes.tokens * hidden * sizes.element_bytes;
  return {.next_bytes = reductions * 2 * PartOf(sizes.tensor) * bytes,
          .messages = reductions * 2 * (sizes.tensor - 1),
          .exposed = 1};
}

// Ring attention (Liu et al., 2023, §3): per layer and micro-batch the keys and values of a rank's
// tokens pass n−1 edges forward and n−1 backward, their gradients n (home again). The gradients of
// the weights are summed over the context ranks too: an all-reduce of what data sharding left.
// A hop hides under the attention of the block before it; short blocks do not hide all of it.
EdgeTraffic ContextTraffic(const Sizes& sizes, double kv_width, double gradient_shard) {
  constexpr double kExposed = 0.1;
  const double block = 2 * sizes.tokens * kv_width / sizes.tensor * sizes.element_bytes;
  const double hops = (sizes.forwards + 1) * (sizes.context - 1) + sizes.context;
  const double passes = sizes.layers * sizes.micro_batches;
  return {.next_bytes = passes * hops * block + 2 * PartOf(sizes.context) * gradient_shard,
          .messages = passes * hops + 2 * (sizes.context - 1) * sizes.layers,
          .exposed = kExposed};
}

// Activations forward, their gradients back, for every micro-batch and boundary between stages,
// split over the tensor ranks (Narayanan et al., "Efficient large-scale language model training on
// GPU clusters", SC 2021, §4.1). With V virtual stages a rank's edge carries V of them and the edge
// that closes the ring V−1 (ibid., §2.2).
// One-forward-one-backward hides transfers while the pipeline is full; filling and draining it do
// not: (p−1) of m·V + p−1 slots.
EdgeTraffic PipelineTraffic(const Sizes& sizes, double hidden) {
  const double boundary = sizes.tokens * hidden / sizes.tensor * sizes.element_bytes;
  const double passes = sizes.micro_batches * sizes.virtual_stages;
  const double bytes = passes * boundary;
  const bool ring = sizes.virtual_stages > 1;
  return {.pattern = ring ? EdgeTraffic::Pattern::kRing : EdgeTraffic::Pattern::kLine,
          .next_bytes = bytes,
          .previous_bytes = bytes,
          .closing = ring ? (sizes.virtual_stages - 1) / sizes.virtual_stages : 0,
          .messages = 2 * passes,
          .exposed = (sizes.pipeline - 1) / (passes + sizes.pipeline - 1)};
}

// Bytes of one rank's collectives of gradients and weights over its shard group, before the factor
// (n−1)/n: an all-reduce of gradients (none); a reduce-scatter and an all-gather of weights (zero1,
// zero2: Rajbhandari et al., "ZeRO", SC 2020, §7; Llama 3, 2024, §3.3.2 keeps weights after
// forward, which is this); a second all-gather (zero3, ZeRO §7.2.2). Of one pass.
double ShardedBytes(ParallelSpec::Shard shard, const Sizes& sizes) {
  const double gradients = sizes.parameters * kGradientBytes;
  const double weights = sizes.parameters * sizes.weight_bytes;
  switch (shard) {
    case ParallelSpec::SHARD_ZERO1:
    case ParallelSpec::SHARD_ZERO2:
      return gradients + weights;
    case ParallelSpec::SHARD_ZERO3:
      return gradients + 2 * weights;
    default:
      return 2 * gradients;
  }
}

// How often a step of zero3 gathers and reduces each layer: of each micro-batch, as parameters and
// gradients are whole for one at a time only, but where a layer takes all of them in turn.
double PassesOf(const ParallelSpec& parallel, const Sizes& sizes) {
  const bool together = parallel.shard() != ParallelSpec::SHARD_ZERO3 ||
                        parallel.micro_order() == ParallelSpec::MICRO_ORDER_LAYER_FIRST;
  return together ? 1 : sizes.micro_batches;
}

// Collectives run layer by layer under the computation of other layers; of the one that has no
// other layer left nothing is hidden: 1 / layers.
EdgeTraffic DataTraffic(const Sizes& sizes, const ParallelSpec& parallel) {
  const double collectives = parallel.shard() == ParallelSpec::SHARD_ZERO3 ? 3 : 2;
  const double passes = PassesOf(parallel, sizes);
  return {.next_bytes = passes * PartOf(sizes.data) * ShardedBytes(parallel.shard(), sizes),
          .messages = passes * collectives * sizes.layers * (sizes.data - 1),
          .exposed = 1 / std::max(1.0, sizes.layers)};
}

// Between shard groups the gradients of a shard are all-reduced (Zhao et al., "PyTorch FSDP", VLDB
// 2023, §3.2.2).
EdgeTraffic ReplicateTraffic(const Sizes& sizes, double gradient_shard) {
  return {.next_bytes = 2 * PartOf(sizes.replicate) * gradient_shard,
          .messages = 2 * sizes.layers * (sizes.replicate - 1),
          .exposed = 1 / std::max(1.0, sizes.layers)};
}

}  // namespace

const char* NameOf(Dimension dimension) {
  switch (dimension) {
    case Dimension::kTensor:
      return "tensor";
    case Dimension::kContext:
      return "context";
    case Dimension::kExpert:
      return "expert";
    case Dimension::kPipeline:
      return "pipeline";
    case Dimension::kData:
      return "data";
    case Dimension::kReplicate:
      return "replicate";
  }
  STRATA_CHECK(false);
  return "";
}

absl::StatusOr<Degrees> DegreesOf(const v1::ParallelSpec& parallel) {
  Degrees degrees;
  degrees.fill(1);
  const auto set = [&](Dimension dimension, int64_t degree) {
    degrees[Index(dimension)] = std::max<int64_t>(1, degree);
  };
  set(Dimension::kTensor, parallel.tensor());
  set(Dimension::kContext, parallel.context());
  set(Dimension::kPipeline, parallel.pipeline());
  set(Dimension::kData, parallel.data());
  if (!parallel.has_shard_group()) return degrees;
  const int64_t group = parallel.shard_group();
  const int64_t data = degrees[Index(Dimension::kData)];
  if (group < 1 || data % group != 0) {
    return absl::InvalidArgumentError(absl::StrCat("parallel.shard_group: ", group,
                                                   " does not divide parallel.data (", data, ")"));
  }
  set(Dimension::kData, group);
  set(Dimension::kReplicate, data / group);
  return degrees;
}

Traffic TrafficOf(const model::ModelSpec& model, const v1::JobSpec& job, const Degrees& degrees) {
  const Sizes sizes = SizesOf(model, job, degrees);
  const ParallelSpec::Shard shard = job.parallel().shard();
  const bool sharded =
      shard != ParallelSpec::SHARD_NONE && shard != ParallelSpec::SHARD_UNSPECIFIED;
  const auto hidden = static_cast<double>(model.hidden);
  const auto kv_width = static_cast<double>(model.kv_heads * model.head_size);
  const double gradient_shard = sizes.parameters * kGradientBytes / (sharded ? sizes.data : 1);
  Traffic traffic = {};
  const auto set = [&](Dimension dimension, EdgeTraffic edge) {
    if (degrees[Index(dimension)] > 1) traffic[Index(dimension)] = edge;
  };
  set(Dimension::kTensor, TensorTraffic(sizes, hidden));
  set(Dimension::kContext, ContextTraffic(sizes, kv_width, gradient_shard));
  // No family has experts: what they would exchange, everybody with everybody, is nothing yet.
  set(Dimension::kExpert, {.pattern = EdgeTraffic::Pattern::kPairs});
  set(Dimension::kPipeline, PipelineTraffic(sizes, hidden));
  set(Dimension::kData, DataTraffic(sizes, job.parallel()));
  set(Dimension::kReplicate, ReplicateTraffic(sizes, gradient_shard));
  return traffic;
}

}  // namespace strata::planner
