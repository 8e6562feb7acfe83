#include "worker/trainer/training_program.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "model/families/families.h"
#include "model/lora_proto.h"
#include "model/model_spec_proto.h"
#include "worker/engine/communication_binding.h"
#include "worker/trainer/memory_plan.h"
#include "worker/trainer/number_plan.h"
#include "worker/trainer/plan_digest.h"
#include "worker/trainer/rank_mesh.h"

namespace strata::worker {
namespace {

absl::Status CheckSupported(const v1::JobSpec& job) {
  if (model::TrainsAdapters(job.train()) && job.model().weights().empty()) {
    return absl::InvalidArgumentError(
        "train.method: adapters are trained beside weights, and model.from has none — name a "
        "directory with weights, or use method: full");
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

program::ScheduleKind ScheduleOf(v1::ParallelSpec::PipelineSchedule schedule) {
  switch (schedule) {
    case v1::ParallelSpec::PIPELINE_SCHEDULE_GPIPE:
      return program::ScheduleKind::kGpipe;
    case v1::ParallelSpec::PIPELINE_SCHEDULE_INTERLEAVED:
      return program::ScheduleKind::kInterleaved;
    case v1::ParallelSpec::PIPELINE_SCHEDULE_ZERO_BUBBLE:
      return program::ScheduleKind::kZeroBubble;
    case v1::ParallelSpec::PIPELINE_SCHEDULE_ZBV:
      return program::ScheduleKind::kZbv;
    default:
      return program::ScheduleKind::k1F1B;
  }
}

program::ContextMethod ContextMethodOf(v1::ParallelSpec::ContextMethod method) {
  switch (method) {
    case v1::ParallelSpec::CONTEXT_METHOD_ALL_GATHER:
      return program::ContextMethod::kAllGather;
    case v1::ParallelSpec::CONTEXT_METHOD_ALL_TO_ALL:
      return program::ContextMethod::kAllToAll;
    default:
      return program::ContextMethod::kRing;
  }
}

// Of each layer of the graph, the embedding and the head included; empty: not asked for.
std::vector<int> StagesOf(const v1::ParallelSpec& parallel) {
  std::vector<int> stages;
  for (int stage = 0; stage < parallel.stages_size(); ++stage) {
    stages.insert(stages.end(), static_cast<size_t>(parallel.stages(stage)), stage);
  }
  if (stages.empty()) return stages;
  stages.insert(stages.begin(), stages.front());
  stages.push_back(stages.back());
  return stages;
}

// Into which a tensor group's collectives are cut: up to four, as far as the tokens of a pass
// allow.
int64_t ChunksOf(const v1::TrainSpec& train, int64_t context, int64_t tensor) {
  const int64_t tokens = train.micro_batch() * train.sequence() / context;
  int64_t chunks = 4;
  while (chunks > 1 && tokens % (tensor * chunks) != 0) --chunks;
  return chunks;
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
  plan.groups.tensor = static_cast<int>(std::max<int64_t>(1, parallel.tensor()));
  plan.groups.context = static_cast<int>(std::max<int64_t>(1, parallel.context()));
  plan.groups.pipeline = static_cast<int>(std::max<int64_t>(1, parallel.pipeline()));
  plan.schedule = ScheduleOf(parallel.pipeline_schedule());
  plan.virtual_stages = static_cast<int>(std::max<int64_t>(1, parallel.virtual_stages()));
  plan.stage_of_layer = StagesOf(parallel);
  plan.virtual_shards = parallel.virtual_shards();
  plan.global_batch = job.train().global_batch();
  if (parallel.micro_order() == v1::ParallelSpec::MICRO_ORDER_LAYER_FIRST) {
    plan.micro_order = program::MicroOrder::kLayerFirst;
  }
  plan.gradient_clip = job.train().gradient_clip();
  SetTypes(job.train(), plan);
  SetMemory(job, plan);
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

int64_t ParametersOf(const program::LayerGraph& graph) {
  int64_t count = 0;
  for (const program::ParameterSet& set : graph.sets) {
    for (const program::TensorSpec& tensor : set.tensors) {
      count += program::IsRowScales(tensor.name) ? 0 : tensor.elements() * tensor.cut.ways;
    }
  }
  return count;
}

// What comes before any stage's programs.
struct Decided {
  TrainingProgram program;  // without programs
  program::Decision decision;
  program::UpdateEmitter update;
};

absl::StatusOr<Decided> DecideTraining(const v1::TrainerTask& task, const data::Corpus& corpus,
                                       const std::string& build) {
  const v1::JobSpec& job = task.job();
  RETURN_IF_ERROR(CheckSupported(job));
  RETURN_IF_ERROR(CheckComplete(job));
  const v1::TrainSpec& train = job.train();
  Decided decided;
  TrainingProgram& result = decided.program;
  ASSIGN_OR_RETURN(result.model, model::FromProto(job.model()));
  // A published model's tokenizer may hold a few tokens more, which no text becomes: each token is
  // looked at when it is read.
  const bool looks_later = job.model().has_from() && job.data().has_tokenizer();
  if (!looks_later && corpus.vocabulary > result.model.vocab) {
    return absl::InvalidArgumentError(absl::StrCat("model.vocab: ", result.model.vocab,
                                                   " is less than the data's ", corpus.vocabulary));
  }
  result.schedule = ScheduleOf(train);
  result.sequence = train.sequence();
  result.global_batch = train.global_batch();
  program::Plan plan = PlanOf(job);
  ASSIGN_OR_RETURN(result.mesh, MeshOf(plan.groups, task));
  if (job.evaluate().every_steps() > 0 && corpus.validation.windows() > 0) {
    result.evaluate_sequences = std::min(job.evaluate().sequences(), corpus.validation.windows());
  }
  plan.evaluate_batch = result.evaluate_sequences;
  model::EmitOptions emit;
  ASSIGN_OR_RETURN(emit.type, ComputeTypeOf(train.precision()));
  emit.set_alignment = NumberFormatsOf(train).set_alignment();
  emit.micro_batch = train.micro_batch();
  emit.sequence = result.sequence;
  emit.prefill_chunk = 0;
  emit.threads = task.threads();
  emit.tensor_degree = plan.groups.tensor;
  emit.tensor_chunks = ChunksOf(train, plan.groups.context, plan.groups.tensor);
  emit.context_ranks = plan.groups.context;
  emit.context_method = ContextMethodOf(job.parallel().context_method());
  emit.documents = job.data().packing();
  emit.split_backward = plan.groups.pipeline > 1 && program::Splits(plan.schedule);
  emit.lora = model::LoraOf(train);
  if (job.parallel().has_recompute()) emit.recompute = RecomputeOf(job.parallel().recompute());
  ASSIGN_OR_RETURN(program::LayerGraph graph, model::EmitFamily(result.model, emit));
  plan.durations = program::DurationsOf(graph);
  result.own_rows =
      program::ContextRuns(result.sequence, plan.groups.context, result.mesh.context(task.rank()));
  result.constant_rows = result.own_rows;
  if (plan.groups.context == 1 || emit.documents) {
    result.constant_rows = {{.count = model::RopeTableRows(result.model, emit)}};
  }
  result.parameters = ParametersOf(graph);
  result.loss_scaling = plan.loss_scaling;
  result.constants = graph.constants;
  ASSIGN_OR_RETURN(decided.decision, program::Decide(std::move(graph), plan));
  decided.update = UpdateOf(train, plan.update_gradient());
  result.digest =
      PlanDigest(decided.decision.graph, decided.decision.plan, decided.update, result.mesh, build);
  result.leaves = decided.decision.leaves;
  result.evaluate_shape = decided.decision.evaluate_shape;
  return decided;
}

// A tokenizer's tokens are made of text before a job starts, never here.
absl::Status CheckPrepared(const data::Corpus& corpus, const std::string& tokenizer) {
  for (const data::Split* split : {&corpus.train, &corpus.validation}) {
    for (const data::SplitSource& source : split->sources) {
      if (absl::string_view(source.tokens->unit()) != "bytes") continue;
      const std::string& path = source.tokens->path();
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": is text, and the job has a tokenizer — prepare it (strata data prepare ", path,
          " --tokenizer ", tokenizer,
          " -o FILE.bin) and name FILE.bin, or let strata run or strata "
          "submit do so"));
    }
  }
  return absl::OkStatus();
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
  spec.vocabulary = job.model().vocab();
  spec.packing = job.data().packing();
  ASSIGN_OR_RETURN(data::Corpus corpus, data::OpenCorpus(spec, nullptr));
  if (job.data().has_tokenizer()) {
    RETURN_IF_ERROR(CheckPrepared(corpus, job.data().tokenizer()));
  }
  return corpus;
}

absl::StatusOr<TrainingProgram> CompileTraining(const v1::TrainerTask& task,
                                                const data::Corpus& corpus,
                                                const std::string& build) {
  ASSIGN_OR_RETURN(Decided decided, DecideTraining(task, corpus, build));
  ASSIGN_OR_RETURN(decided.program.programs,
                   program::ComposeStage(decided.decision, decided.program.mesh.stage(task.rank()),
                                         decided.update));
  return std::move(decided.program);
}

absl::StatusOr<std::vector<program::StagePrograms>> CompileStages(const v1::TrainerTask& task,
                                                                  const data::Corpus& corpus,
                                                                  const std::string& build) {
  ASSIGN_OR_RETURN(const Decided decided, DecideTraining(task, corpus, build));
  std::vector<program::StagePrograms> stages;
  for (int stage = 0; stage < decided.program.mesh.sizes.pipeline; ++stage) {
    ASSIGN_OR_RETURN(stages.emplace_back(),
                     program::ComposeStage(decided.decision, stage, decided.update));
  }
  return stages;
}

}  // namespace strata::worker
