#include "planner/search/job_choice.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "planner/performance/step_prediction.h"

namespace strata::planner {
namespace {

// Of AdamW or SGD, by the formats of masters, moments and gradients; the norm reads the gradient
// too.
double UpdateBytesOf(const v1::TrainSpec& train) {
  const v1::OptimizerSpec& optimizer = train.optimizer();
  const bool narrow = train.precision() > v1::TrainSpec::PRECISION_F32;
  const double gradient = optimizer.gradient() == v1::OptimizerSpec::GRADIENT_BF16 ? 2 : 4;
  const double moment = optimizer.state() == v1::OptimizerSpec::STATE_BF16   ? 2
                        : optimizer.state() == v1::OptimizerSpec::STATE_8BIT ? 1
                                                                             : 4;
  const double moments = optimizer.name() == v1::OptimizerSpec::NAME_SGD ? 1 : 2;
  // Whole weights are read and written; beside masters of 32 bits those of 16 are written, while
  // split ones are both halves of one number.
  const bool beside = narrow && optimizer.master() != v1::OptimizerSpec::MASTER_SPLIT;
  return 2 * gradient + 2 * 4 + (beside ? 2 : 0) + 2 * moments * moment;
}

bool IsAway(const v1::TierShares& shares) {
  return shares.host() > 0 || shares.ssd() > 0 || shares.unified() > 0;
}

std::optional<LayoutChoice> LayoutOf(const FitModel& model, const v1::JobSpec& job) {
  const v1::ParallelSpec& parallel = job.parallel();
  const v1::TrainSpec& train = job.train();
  const v1::PlaceSpec& place = job.memory().place();
  const bool states = IsAway(place.optimizer());
  // What the closed form has beside state on the host only.
  const bool gradients = IsAway(place.gradients()), parameters = IsAway(place.parameters());
  if (train.method() > v1::TrainSpec::METHOD_FULL || (gradients && !states) ||
      (parameters && !gradients)) {
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
  if (parallel.has_recompute()) {
    SetRecompute(parallel.recompute(), SavedNames(model.spec.family), model.spec.layers, layout);
  }
  layout.precision =
      train.precision() > v1::TrainSpec::PRECISION_F32 ? Precision::kHalf : Precision::kFp32;
  layout.update_bytes = UpdateBytesOf(train);
  layout.context_shares = false;
  layout.offload = parameters  ? Offload::kParameters
                   : gradients ? Offload::kGradients
                   : states    ? Offload::kOptimizer
                               : Offload::kNone;
  if (IsAway(place.activations())) layout.offload = layout.offload | Offload::kActivations;
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
  shape.tied = model.spec.tied_embeddings;
  shape.sequence_length = sequence;
  if (experts) {
    shape.experts = model.experts;
    shape.experts_per_token = model.experts_per_token;
    shape.expert_ffn = model.spec.ffn;
  }
  return shape;
}

absl::Status HasPrograms(const TrainingShape& shape, const LayoutChoice& layout) {
  if (layout.precision != Precision::kHalf && layout.precision != Precision::kFp32) {
    return absl::UnimplementedError(
        absl::StrCat("products in ", NameOf(layout.precision), " are not trained here yet"));
  }
  if (shape.experts > 0) return absl::UnimplementedError("experts are not trained here yet");
  if (layout.recompute == Recompute::kOperators) {
    return absl::UnimplementedError("no job can say recompute operators");
  }
  return absl::OkStatus();
}

v1::JobSpec JobOf(const TrainingShape& shape, const LayoutChoice& layout, const SavedNames& names) {
  using v1::OptimizerSpec;
  using v1::ParallelSpec;
  v1::JobSpec job;
  job.mutable_resources()->set_ranks(layout.devices());
  job.mutable_resources()->set_device("gpu");
  ParallelSpec& parallel = *job.mutable_parallel();
  parallel.set_tensor(layout.tensor);
  parallel.set_context(layout.context);
  parallel.set_pipeline(layout.pipeline);
  parallel.set_virtual_stages(layout.chunks);
  if (layout.pipeline > 1) {
    parallel.set_pipeline_schedule(layout.chunks > 1 ? ParallelSpec::PIPELINE_SCHEDULE_INTERLEAVED
                                                     : ParallelSpec::PIPELINE_SCHEDULE_1F1B);
  }
  parallel.set_data(layout.data);
  static constexpr ParallelSpec::Shard kLevels[] = {
      ParallelSpec::SHARD_NONE, ParallelSpec::SHARD_ZERO1, ParallelSpec::SHARD_ZERO2,
      ParallelSpec::SHARD_ZERO3};
  parallel.set_shard(kLevels[static_cast<int>(layout.sharding)]);
  if (layout.sharding != Sharding::kReplicated) {
    parallel.set_shard_group(layout.data / layout.replicas);
  }
  if (layout.recompute != Recompute::kNone) {
    *parallel.mutable_recompute() = RecomputeOf(layout, names);
  }
  v1::TrainSpec& train = *job.mutable_train();
  train.set_sequence(shape.sequence_length);
  train.set_micro_batch(layout.micro_batch);
  train.set_global_batch(layout.global_batch);
  train.set_gradient_clip(1);
  train.set_precision(layout.precision == Precision::kFp32 ? v1::TrainSpec::PRECISION_F32
                                                           : v1::TrainSpec::PRECISION_BF16);
  train.mutable_optimizer()->set_name(OptimizerSpec::NAME_ADAMW);
  train.mutable_optimizer()->set_master(OptimizerSpec::MASTER_F32);
  train.mutable_optimizer()->set_state(OptimizerSpec::STATE_F32);
  v1::PlaceSpec& place = *job.mutable_memory()->mutable_place();
  if (Has(layout.offload, Offload::kParameters)) place.mutable_parameters()->set_host(1);
  if (Has(layout.offload, Offload::kGradients)) place.mutable_gradients()->set_host(1);
  if (Has(layout.offload, Offload::kOptimizer)) {
    v1::TierShares& shares = *place.mutable_optimizer();
    layout.unified ? shares.set_unified(1) : shares.set_host(1);
  }
  if (Has(layout.offload, Offload::kActivations)) {
    place.mutable_activations()->set_host(1);
  }
  return job;
}

std::optional<JobChoice> ChoiceOf(const Catalog& catalog, const FitModel& model,
                                  const v1::JobSpec& job, const std::string& device,
                                  std::optional<double> memory_bytes) {
  const auto shape = ShapeOf(model, job.train().sequence());
  const auto layout = LayoutOf(model, job);
  if (!shape.has_value() || !layout.has_value()) return std::nullopt;
  const auto found = catalog.Find({.gpu = device,
                                   .precision = layout->precision,
                                   .framework = kOwnFramework,
                                   .memory_bytes = memory_bytes});
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
