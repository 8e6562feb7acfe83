#include "worker/trainer/training_program.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "model/lora_proto.h"
#include "model/model_spec_proto.h"
#include "planner/job/job_plan.h"
#include "worker/engine/communication_binding.h"
#include "worker/trainer/plan_digest.h"
#include "worker/trainer/rank_mesh.h"
#include "worker/trainer/step_costs.h"

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
  if (job.evaluate().every_steps() > 0 && corpus.validation.windows() > 0) {
    result.evaluate_sequences = std::min(job.evaluate().sequences(), corpus.validation.windows());
  }
  ASSIGN_OR_RETURN(result.mesh, MeshOf(planner::PlanOf(job).groups, task));
  const planner::NamedCosts costs = BestCostsOf(task);
  ASSIGN_OR_RETURN(planner::DecidedJob made,
                   planner::DecideJob(job, result.model,
                                      {.threads = task.threads(),
                                       .evaluate_sequences = result.evaluate_sequences,
                                       .scratch = CollectiveScratchBytes,
                                       .costs = costs.model.get()}));
  decided.decision = std::move(made.decision);
  decided.update = std::move(made.update);
  const program::Plan& plan = decided.decision.plan;
  result.own_rows =
      program::ContextRuns(result.sequence, plan.groups.context, result.mesh.context(task.rank()));
  result.constant_rows = result.own_rows;
  if (plan.groups.context == 1 || job.data().packing()) {
    result.constant_rows = {{.count = made.rope_table_rows}};
  }
  result.parameters = made.parameters;
  result.stream = made.stream;
  result.loss_scaling = plan.loss_scaling;
  result.constants = decided.decision.graph.constants;
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
