#include "worker/trainer/training_program.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "model/families/llama.h"
#include "model/model_spec_proto.h"
#include "model/optimizer/adamw.h"
#include "worker/engine/communication_binding.h"
#include "worker/trainer/plan_digest.h"

namespace strata::worker {
namespace {

absl::Status CheckSupported(const v1::JobSpec& job) {
  const v1::ParallelSpec& parallel = job.parallel();
  const auto refuse = [](const char* what) {
    return absl::UnimplementedError(absl::StrCat(what, ": not supported yet"));
  };
  if (parallel.tensor() > 1) return refuse("parallel.tensor above 1");
  if (parallel.context() > 1) return refuse("parallel.context above 1");
  if (parallel.pipeline() > 1) return refuse("parallel.pipeline above 1");
  if (job.model().has_from()) return refuse("model.from");
  if (job.train().has_start_from()) return refuse("train.start_from");
  if (job.train().precision() > v1::TrainSpec::PRECISION_F32) {
    return refuse("train.precision other than f32");
  }
  return absl::OkStatus();
}

model::ScheduleSpec ScheduleOf(const v1::TrainSpec& train) {
  model::ScheduleSpec schedule;
  switch (train.schedule().name()) {
    case v1::ScheduleSpec::NAME_WSD:
      schedule.kind = model::ScheduleSpec::Kind::kWarmupStableDecay;
      break;
    case v1::ScheduleSpec::NAME_CONSTANT:
      schedule.kind = model::ScheduleSpec::Kind::kConstant;
      break;
    default:
      schedule.kind = model::ScheduleSpec::Kind::kCosine;
  }
  schedule.peak = train.optimizer().learning_rate();
  schedule.steps = train.steps();
  schedule.warmup_steps = train.schedule().warmup_steps();
  schedule.final_fraction = train.schedule().final_fraction();
  return schedule;
}

program::ShardLevel LevelOf(v1::ParallelSpec::Shard shard) {
  switch (shard) {
    case v1::ParallelSpec::SHARD_ZERO1:
      return program::ShardLevel::kOptimizer;
    case v1::ParallelSpec::SHARD_ZERO2:
      return program::ShardLevel::kGradients;
    case v1::ParallelSpec::SHARD_ZERO3:
      return program::ShardLevel::kParameters;
    default:
      return program::ShardLevel::kNone;
  }
}

// Jobs come with their defaults filled in; those kept in old checkpoints may lack what is newer.
absl::Status CheckComplete(const v1::JobSpec& job) {
  const auto lacks = [](const char* field) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": the job does not say it"));
  };
  if (job.train().micro_batch() < 1) return lacks("train.micro_batch");
  if (job.train().global_batch() < 1) return lacks("train.global_batch");
  if (job.parallel().data() < 1) return lacks("parallel.data");
  if (!job.parallel().has_virtual_shards()) return lacks("parallel.virtual_shards");
  return absl::OkStatus();
}

program::Plan PlanOf(const v1::JobSpec& job) {
  const v1::ParallelSpec& parallel = job.parallel();
  program::Plan plan;
  plan.shard = LevelOf(parallel.shard());
  plan.groups.data = static_cast<int>(parallel.data());
  if (plan.shard != program::ShardLevel::kNone) {
    plan.groups.shard =
        static_cast<int>(parallel.shard_group() > 0 ? parallel.shard_group() : parallel.data());
  }
  plan.virtual_shards = parallel.virtual_shards();
  plan.global_batch = job.train().global_batch();
  if (parallel.micro_order() == v1::ParallelSpec::MICRO_ORDER_LAYER_FIRST) {
    plan.micro_order = program::MicroOrder::kLayerFirst;
  }
  plan.gradient_clip = job.train().gradient_clip();
  plan.scratch = CollectiveScratchBytes;
  return plan;
}

model::RecomputePlan RecomputeOf(const v1::RecomputeSpec& spec) {
  using Mode = model::RecomputePlan::Mode;
  model::RecomputePlan plan;
  if (spec.mode() == v1::RecomputeSpec::MODE_SELECTIVE) plan.mode = Mode::kSelective;
  if (spec.mode() == v1::RecomputeSpec::MODE_FULL) plan.mode = Mode::kFull;
  if (spec.has_mode()) return plan;
  plan.save.assign(spec.save().begin(), spec.save().end());
  if (plan.save.empty()) plan.mode = Mode::kFull;  // a list that names nothing
  if (spec.has_layers()) {
    plan.first_layer = spec.layers().first();
    plan.last_layer = spec.layers().last();
  }
  return plan;
}

program::UpdateEmitter UpdateOf(const v1::OptimizerSpec& optimizer) {
  const model::AdamWSpec spec{optimizer.beta1(), optimizer.beta2(), optimizer.epsilon(),
                              optimizer.weight_decay()};
  return [spec](const program::ParameterSet& set, int64_t count) {
    return model::EmitAdamW(set, spec, count);
  };
}

}  // namespace

absl::StatusOr<data::Corpus> OpenJobCorpus(const v1::JobSpec& job) {
  data::CorpusSpec spec;
  for (const v1::WeightedFile& file : job.data().train()) {
    spec.train.push_back({file.path(), file.has_weight() ? file.weight() : 1});
  }
  spec.validation_path = job.data().validation().path();
  spec.validation_fraction = job.data().validation().fraction();
  spec.sequence = job.train().sequence();
  return data::OpenCorpus(spec, nullptr);
}

absl::StatusOr<TrainingProgram> CompileTraining(const v1::JobSpec& job, const data::Corpus& corpus,
                                                int threads, const std::string& build) {
  RETURN_IF_ERROR(CheckSupported(job));
  RETURN_IF_ERROR(CheckComplete(job));
  const v1::TrainSpec& train = job.train();
  TrainingProgram result;
  ASSIGN_OR_RETURN(result.model, model::FromProto(job.model()));
  if (corpus.vocabulary > result.model.vocab) {
    return absl::InvalidArgumentError(absl::StrCat("model.vocab: ", result.model.vocab,
                                                   " is less than the data's ", corpus.vocabulary));
  }
  result.schedule = ScheduleOf(train);
  result.sequence = train.sequence();
  result.global_batch = train.global_batch();
  program::Plan plan = PlanOf(job);
  result.groups = plan.groups;
  if (job.evaluate().every_steps() > 0 && corpus.validation.windows() > 0) {
    result.evaluate_sequences = std::min(job.evaluate().sequences(), corpus.validation.windows());
  }
  plan.evaluate_batch = result.evaluate_sequences;
  model::EmitOptions emit;
  emit.micro_batch = train.micro_batch();
  emit.sequence = result.sequence;
  emit.prefill_chunk = 0;
  emit.threads = threads;
  if (job.parallel().has_recompute()) emit.recompute = RecomputeOf(job.parallel().recompute());
  ASSIGN_OR_RETURN(program::LayerGraph graph, model::EmitLlama(result.model, emit));
  result.rope_rows = model::RopeTableRows(result.model, emit);
  ASSIGN_OR_RETURN(const program::Decision decision, program::Decide(std::move(graph), plan));
  const program::UpdateEmitter update = UpdateOf(train.optimizer());
  result.digest = PlanDigest(decision.graph, decision.plan, update, build);
  result.leaves = decision.leaves;
  result.evaluate_shape = decision.evaluate_shape;
  ASSIGN_OR_RETURN(result.programs, program::ComposeStage(decision, 0, update));
  return result;
}

}  // namespace strata::worker
