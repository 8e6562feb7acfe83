#include "worker/trainer/training_program.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "model/families/llama.h"
#include "model/model_spec_proto.h"
#include "model/optimizer/adamw.h"
#include "worker/engine/communication_binding.h"

namespace strata::worker {
namespace {

constexpr int64_t kLargestAutomaticMicroBatch = 4;

absl::Status CheckSupported(const v1::JobSpec& job) {
  const v1::ParallelSpec& parallel = job.parallel();
  const auto refuse = [](const char* what) {
    return absl::UnimplementedError(absl::StrCat(what, ": not supported yet"));
  };
  if (parallel.tensor() > 1) return refuse("parallel.tensor above 1");
  if (parallel.context() > 1) return refuse("parallel.context above 1");
  if (parallel.pipeline() > 1) return refuse("parallel.pipeline above 1");
  if (parallel.shard() == v1::ParallelSpec::SHARD_ZERO2 ||
      parallel.shard() == v1::ParallelSpec::SHARD_ZERO3) {
    return refuse("parallel.shard above zero1");
  }
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

// What the job says, or the largest divisor of a virtual shard's sequences up to the limit.
int64_t MicroBatchOf(const v1::TrainSpec& train, int64_t virtual_shards) {
  if (train.micro_batch() > 0) return train.micro_batch();
  const int64_t sequences = train.global_batch() / virtual_shards;
  int64_t micro = std::min(kLargestAutomaticMicroBatch, std::max<int64_t>(sequences, 1));
  while (sequences % micro != 0) --micro;
  return micro;
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
                                                int threads) {
  RETURN_IF_ERROR(CheckSupported(job));
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
  result.data_degree = static_cast<int>(std::max<int64_t>(1, job.parallel().data()));
  result.virtual_shards = static_cast<int>(
      job.parallel().virtual_shards() > 0 ? job.parallel().virtual_shards() : result.data_degree);
  result.shard_optimizer = job.parallel().shard() == v1::ParallelSpec::SHARD_ZERO1;
  if (job.evaluate().every_steps() > 0 && corpus.validation.windows() > 0) {
    result.evaluate_sequences = std::min(job.evaluate().sequences(), corpus.validation.windows());
  }
  model::EmitOptions emit;
  emit.micro_batch = MicroBatchOf(train, result.virtual_shards);
  emit.sequence = result.sequence;
  emit.prefill_chunk = 0;
  emit.threads = threads;
  emit.set_ranges = result.virtual_shards;
  ASSIGN_OR_RETURN(program::LayerGraph graph, model::EmitLlama(result.model, emit));
  result.rope_rows = model::RopeTableRows(result.model, emit);
  result.evaluate_shape = program::ShapeOfEvaluation(result.evaluate_sequences,
                                                     result.virtual_shards, emit.micro_batch);
  program::DataParallelOptions options;
  options.data = result.data_degree;
  options.virtual_shards = result.virtual_shards;
  options.global_batch = result.global_batch;
  options.evaluate_batch = result.evaluate_sequences;
  options.shard_optimizer = result.shard_optimizer;
  options.gradient_clip = train.gradient_clip();
  options.scratch = CollectiveScratchBytes;
  ASSIGN_OR_RETURN(result.programs, program::BuildDataParallel(
                                        std::move(graph), UpdateOf(train.optimizer()), options));
  return result;
}

}  // namespace strata::worker
