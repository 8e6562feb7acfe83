#include "planner/search/job_choice.h"

#include <algorithm>

#include "planner/performance/step_prediction.h"

namespace strata::planner {
namespace {

bool IsAway(const v1::TierShares& shares) {
  return shares.host() > 0 || shares.ssd() > 0 || shares.unified() > 0;
}

std::optional<LayoutChoice> LayoutOf(const v1::JobSpec& job) {
  const v1::ParallelSpec& parallel = job.parallel();
  const v1::TrainSpec& train = job.train();
  const v1::PlaceSpec& place = job.memory().place();
  if (train.method() > v1::TrainSpec::METHOD_FULL || IsAway(place.parameters()) ||
      IsAway(place.gradients())) {
    return std::nullopt;
  }
  const auto degree = [](int64_t given) { return std::max<int64_t>(1, given); };
  LayoutChoice layout;
  layout.tensor = degree(parallel.tensor());
  layout.context = degree(parallel.context());
  layout.pipeline = degree(parallel.pipeline());
  layout.chunks = degree(parallel.virtual_stages());
  layout.data = degree(parallel.data());
  layout.sequence_parallel = layout.tensor > 1;
  layout.micro_batch = degree(train.micro_batch());
  layout.global_batch = std::max(train.global_batch(), layout.data * layout.micro_batch);
  switch (parallel.shard()) {
    case v1::ParallelSpec::SHARD_ZERO1:
      layout.sharding = Sharding::kZero1;
      break;
    case v1::ParallelSpec::SHARD_ZERO2:
      layout.sharding = Sharding::kZero2;
      break;
    case v1::ParallelSpec::SHARD_ZERO3:
      layout.sharding = Sharding::kZero3;
      break;
    default:
      layout.sharding = Sharding::kReplicated;
  }
  const int64_t group = parallel.shard_group();
  if (layout.sharding != Sharding::kReplicated && group > 0 && layout.data % group == 0) {
    layout.replicas = layout.data / group;
  }
  switch (parallel.recompute().mode()) {
    case v1::RecomputeSpec::MODE_SELECTIVE:
      layout.recompute = Recompute::kSelective;
      break;
    case v1::RecomputeSpec::MODE_FULL:
      layout.recompute = Recompute::kFull;
      break;
    default:
      layout.recompute = Recompute::kNone;
  }
  layout.precision =
      train.precision() > v1::TrainSpec::PRECISION_F32 ? Precision::kHalf : Precision::kFp32;
  const bool states = IsAway(place.optimizer()), activations = IsAway(place.activations());
  layout.offload = states && activations ? Offload::kAll
                   : states              ? Offload::kOptimizer
                   : activations         ? Offload::kActivations
                                         : Offload::kNone;
  layout.unified = place.optimizer().unified() > 0;
  layout.disk = place.optimizer().ssd() > 0;
  return layout;
}

}  // namespace

std::optional<TrainingShape> ShapeOf(const FitModel& model, int64_t sequence) {
  const bool experts = model.kind == FitModel::Kind::kMoe;
  if (model.kind != FitModel::Kind::kFamily && !experts) return std::nullopt;
  TrainingShape shape;
  shape.layers = model.spec.layers;
  shape.hidden = model.spec.hidden;
  shape.heads = model.spec.heads;
  shape.kv_heads = model.spec.kv_heads;
  shape.head_dim = model.spec.head_size;
  shape.ffn = model.spec.ffn;
  shape.gated = model.spec.family != model::Family::kGpt2;
  shape.vocab = model.spec.vocab;
  shape.sequence_length = sequence;
  if (experts) {
    shape.experts = model.experts;
    shape.experts_per_token = model.experts_per_token;
    shape.expert_ffn = model.spec.ffn;
  }
  return shape;
}

std::optional<JobChoice> ChoiceOf(const Catalog& catalog, const FitModel& model,
                                  const v1::JobSpec& job, const std::string& device,
                                  std::optional<double> memory_bytes) {
  const auto shape = ShapeOf(model, job.train().sequence());
  const auto layout = LayoutOf(job);
  if (!shape.has_value() || !layout.has_value()) return std::nullopt;
  const auto found =
      catalog.Find({.gpu = device, .precision = layout->precision, .memory_bytes = memory_bytes});
  if (!found.ok()) return std::nullopt;
  return JobChoice{found->machine, *shape, *layout};
}

double StepSecondsOf(const Catalog& catalog, const FitRequest& request) {
  if (request.inference || request.device.is_cpu) return -1;
  const auto choice = ChoiceOf(catalog, request.model, request.job, request.device.name,
                               static_cast<double>(request.device.bytes));
  return choice.has_value() ? PredictStep(choice->machine, choice->shape, choice->layout).seconds
                            : -1;
}

}  // namespace strata::planner
