#include "worker/trainer/train_task.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "checkpoint/commit_authority.h"
#include "checkpoint/committer.h"
#include "checkpoint/reader.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "kernels/isa.h"
#include "model/lora_proto.h"
#include "model/optimizer/loss_scale.h"
#include "worker/trainer/adapters.h"
#include "worker/trainer/agent_commit_authority.h"
#include "worker/trainer/base_weights.h"
#include "worker/trainer/checkpointing.h"
#include "worker/trainer/commit_queue.h"
#include "worker/trainer/data_files.h"
#include "worker/trainer/inference_program.h"
#include "worker/trainer/memory_plan.h"
#include "worker/trainer/program_digest.h"
#include "worker/trainer/rank_engine.h"
#include "worker/trainer/recorded_checkpoint.h"
#include "worker/trainer/starting_point.h"
#include "worker/trainer/state_io.h"
#include "worker/trainer/step_costs.h"
#include "worker/trainer/training_host_ops.h"
#include "worker/trainer/training_program.h"

namespace strata::worker {
namespace {

void AddPurposes(const StepMetrics& metrics, v1::StepRecord& record) {
  for (int p = 0; p < program::kPurposeCount; ++p) {
    if (metrics.compute[p] + metrics.exposed[p] + metrics.background[p] <= 0) continue;
    v1::PurposeSeconds& seconds = *record.add_purposes();
    seconds.set_purpose(program::Name(static_cast<program::Purpose>(p)));
    seconds.set_compute_seconds(metrics.compute[p]);
    seconds.set_exposed_seconds(metrics.exposed[p]);
    seconds.set_background_seconds(metrics.background[p]);
  }
}

// Beside what was measured.
void AddPrediction(const v1::JobPlan& plan, v1::StepRecord& record) {
  if (!plan.has_predicted_seconds()) return;
  record.set_predicted_seconds(plan.predicted_seconds());
  for (const v1::PurposeSeconds& predicted : plan.predicted_purposes()) {
    auto& purposes = *record.mutable_purposes();
    const auto same = std::find_if(purposes.begin(), purposes.end(), [&](const auto& each) {
      return each.purpose() == predicted.purpose();
    });
    (same != purposes.end() ? *same : *purposes.Add()).MergeFrom(predicted);
  }
}

using program::Scalar;

// Rank 0's committing of checkpoints, for as long as the job trains.
class Commits {
 public:
  explicit Commits(const TaskContext& context)
      : mail_(context.mail),
        agent_(context.control),
        committer_(context.task.job().checkpoint().directory(), context.files,
                   context.task.has_controlled()
                       ? static_cast<checkpoint::CommitAuthority*>(&agent_)
                       : &local_),
        queue_(
            [this](const checkpoint::CommitRequest& request) { return committer_.Commit(request); },
            [control = context.control](const v1::CheckpointCommitted& committed,
                                        const absl::Status& cleanup) {
              v1::TrainerEvent event;
              *event.mutable_committed() = committed;
              control->Send(event);
              if (cleanup.ok()) return;
              control->Notice(v1::Notice::SEVERITY_WARNING,
                              absl::StrCat("old checkpoints: ", std::string(cleanup.message())));
            }) {
    mail_->commits.SetReceiver(
        [this](const v1::CommitCheckpoint& command) { queue_.Complete(command); });
    mail_->answers.SetReceiver(
        [this](const v1::CheckpointAnswer& answer) { agent_.Answer(answer); });
  }
  ~Commits() {
    mail_->commits.SetReceiver(nullptr);
    mail_->answers.SetReceiver(nullptr);
    agent_.Cancel();  // the queue ends what it has begun
  }

  CommitQueue* queue() { return &queue_; }
  void Cancel() {
    queue_.Cancel();
    agent_.Cancel();
  }

 private:
  CheckpointMail* const mail_;
  checkpoint::LocalCommitAuthority local_;
  AgentCommitAuthority agent_;
  checkpoint::Committer committer_;
  CommitQueue queue_;
};

class Training {
 public:
  Training(const TaskContext& context, TrainingProgram program, const data::Corpus& corpus,
           CountedCorpus counted)
      : context_(context),
        job_(context.task.job()),
        rank_(context.task.rank()),
        program_(std::move(program)),
        corpus_(corpus),
        mesh_(program_.mesh),
        state_(StateOf(program_.programs.slots, mesh_, rank_)),
        host_(&program_, corpus, std::move(counted), static_cast<uint64_t>(job_.train().seed()),
              job_.data().shuffle(), rank_, context.progress,
              [this] { return checkpoints_->AtGate(); }),
        step_(context.task.plan().start_step()),
        job_text_(JobText(job_)) {
    if (rank_ == 0) commits_.emplace(context_);
    checkpoints_.emplace(context_.task, context_.control,
                         commits_.has_value() ? commits_->queue() : nullptr, context_.files);
  }

  ~Training() { context_.control->SetCancel(nullptr); }

  absl::StatusOr<v1::Finished::Outcome> Run() {
    RETURN_IF_ERROR(MakeEngine());
    // Whoever waits for commits is released with the engine.
    context_.control->SetCancel([this](const absl::Status& status) {
      engine().Cancel(status);
      if (commits_.has_value()) commits_->Cancel();
    });
    RETURN_IF_ERROR(LoadOrInitialise());
    context_.control->gate().SetStart(step_);
    v1::TrainerEvent running;
    rank_engine_->memory().Read(engine(), running.mutable_running()->mutable_memory());
    context_.control->Send(running);

    context_.progress->SetPhase(Phase::kTraining);
    const int64_t steps = job_.train().steps(), start = step_;
    bool interrupted = false;
    while (step_ < steps && !interrupted) {
      if (context_.control->gate().Enter(step_ + 1)) {
        RETURN_IF_ERROR(Step());
      } else {
        interrupted = true;
      }
    }
    if (step_ > start && checkpoints_->newest_step() != step_) RETURN_IF_ERROR(BeginCheckpoint());
    context_.progress->SetPhase(Phase::kCommitting);
    RETURN_IF_ERROR(checkpoints_->Finish());
    RETURN_IF_ERROR(engine().Drain());
    RETURN_IF_ERROR(rank_engine_->CloseCommunication());
    return interrupted ? v1::Finished::INTERRUPTED : v1::Finished::SUCCEEDED;
  }

 private:
  Engine& engine() { return rank_engine_->engine(); }
  double Get(Scalar scalar) { return engine().scalar(scalar); }
  bool DueEvery(int64_t every) const {
    return (every > 0 && step_ % every == 0) || step_ == job_.train().steps();
  }

  // Rank 0 verifies that all stages' programs go together.
  absl::Status MakeEngine() {
    const program::ProgramSet& own = program_.programs.set;
    std::vector<program::StagePrograms> all;
    std::vector<const program::ProgramSet*> stages;
    if (rank_ == 0 && mesh_.sizes.pipeline == 1) stages = {&own};
    if (rank_ == 0 && mesh_.sizes.pipeline > 1) {
      ASSIGN_OR_RETURN(all, CompileStages(context_.task, corpus_, context_.build));
      for (const program::StagePrograms& stage : all) stages.push_back(&stage.set);
      stages.front() = &own;
    }
    ASSIGN_OR_RETURN(rank_engine_,
                     RankEngine::Create(context_, own, mesh_, stages, program_.digest, &host_));
    return absl::OkStatus();
  }

  absl::Status LoadOrInitialise() {
    RETURN_IF_ERROR(FillConstants(engine(), program_.model, program_.constants,
                                  program_.programs.slots.constants, program_.constant_rows,
                                  program_.sequence));
    const std::string& folder = context_.task.plan().checkpoint_folder();
    const bool adapts = model::TrainsAdapters(job_.train());
    if (HasBaseWeights(job_.model()) && (folder.empty() || adapts)) {
      ASSIGN_OR_RETURN(const std::unique_ptr<checkpoint::HuggingFaceWeights> weights,
                       OpenBaseWeights(job_.model(), engine().programs().sets, context_.files));
      const Sets which = adapts ? Sets::kFrozen : Sets::kAll;
      RETURN_IF_ERROR(LoadWeights(engine(), state_, which, *weights));
      if (!adapts) return absl::OkStatus();
    }
    if (folder.empty()) return Initialise(adapts ? Sets::kTrained : Sets::kAll);
    ASSIGN_OR_RETURN(const std::unique_ptr<checkpoint::Checkpoint> source, OpenStart(folder));
    const checkpoint::CheckpointInfo& info = source->manifest().info;
    applied_ = info.applied_updates;
    if (info.loss_scale > 0) loss_scale_ = {info.loss_scale, info.good_steps};
    const absl::Status loaded = LoadState(engine(), state_, applied_, *source);
    if (!context_.task.controlled().has_checkpoint()) return loaded;
    return WithProblem(job_.checkpoint().directory(), context_.task.controlled().checkpoint(),
                       loaded);
  }

  // From the seed, or an adapter to go on from.
  absl::Status Initialise(Sets which) {
    if (job_.model().has_adapter()) {
      ASSIGN_OR_RETURN(const std::unique_ptr<checkpoint::AdapterWeights> adapter,
                       OpenAdapter(job_, engine().programs().sets, context_.files));
      return LoadWeights(engine(), state_, which, *adapter);
    }
    return InitialiseState(engine(), state_, which, static_cast<uint64_t>(job_.train().seed()),
                           rank_engine_->pool());
  }

  absl::StatusOr<std::unique_ptr<checkpoint::Checkpoint>> OpenStart(
      const std::string& folder) const {
    if (context_.task.controlled().has_checkpoint()) {  // else of another job
      return OpenRecorded(job_.checkpoint().directory(), context_.task.controlled().checkpoint(),
                          context_.files);
    }
    return checkpoint::Checkpoint::OpenFolder(folder, checkpoint::Verification::kOnRead,
                                              context_.files);
  }

  absl::Status Step() {
    ++step_;
    context_.progress->SetStep(step_);
    RETURN_IF_ERROR(
        host_.BeginStep(step_, applied_, program_.loss_scaling ? loss_scale_.value : 1));
    RETURN_IF_ERROR(engine().RunStep(train_, applied_));
    v1::TrainerEvent event;
    v1::StepRecord& record = *event.mutable_step();
    record.set_step(step_);
    record.set_loss(Get(Scalar::kLoss));
    record.set_grad_norm(Get(Scalar::kGradientNorm));
    record.set_learning_rate(host_.learning_rate());
    record.set_tokens(host_.tokens());
    record.set_seconds(engine().metrics().total);
    record.set_epoch(context_.task.plan().epoch());
    record.set_attempt(context_.task.plan().attempt());
    record.set_exposed_communication_seconds(engine().metrics().exposed_communication());
    if (rank_ == 0) AddPurposes(engine().metrics(), record);
    if (rank_ == 0) {
      rank_engine_->memory().ReadTransfers(engine().metrics(), record.mutable_transfers());
    }
    if (rank_ == 0) AddPrediction(context_.task.plan(), record);
    const bool applied = Get(Scalar::kApply) != 0;
    applied_ += applied;
    if (program_.loss_scaling) {
      record.set_loss_scale(loss_scale_.value);
      loss_scale_.Update(applied);
    }
    record.set_applied(applied_);
    if (!applied && rank_ == 0) {
      context_.control->Notice(v1::Notice::SEVERITY_WARNING,
                               absl::StrCat("step ", step_, " was not applied: loss ",
                                            record.loss(), ", gradient norm ", record.grad_norm()));
    }
    if (DueEvery(job_.checkpoint().every_steps())) RETURN_IF_ERROR(BeginCheckpoint());
    if (program_.evaluate_sequences > 0 && DueEvery(job_.evaluate().every_steps())) {
      RETURN_IF_ERROR(Evaluate(record));
    }
    rank_engine_->memory().Read(engine(), record.mutable_memory());
    context_.control->Send(event);
    return absl::OkStatus();
  }

  absl::Status Evaluate(v1::StepRecord& record) {
    context_.progress->SetPhase(Phase::kEvaluating);
    RETURN_IF_ERROR(host_.BeginEvaluation(step_, applied_));
    RETURN_IF_ERROR(engine().RunStep(evaluate_, applied_));
    context_.progress->SetPhase(Phase::kTraining);
    record.set_validation_loss(Get(Scalar::kLoss));
    if (rank_ != 0) return absl::OkStatus();
    v1::TrainerEvent event;
    v1::Evaluation& evaluation = *event.mutable_evaluation();
    evaluation.set_step(step_);
    evaluation.set_validation_loss(record.validation_loss());
    evaluation.set_tokens(host_.tokens());
    evaluation.set_seconds(engine().metrics().total);
    context_.control->Send(event);
    return absl::OkStatus();
  }

  absl::Status BeginCheckpoint() {
    checkpoint::CheckpointInfo info;
    info.step = step_;
    info.applied_updates = applied_;
    info.next_sample_index = step_ * program_.global_batch;
    info.epoch = context_.task.plan().epoch();
    info.virtual_shards = static_cast<int>(job_.parallel().virtual_shards());
    info.seed = static_cast<uint64_t>(job_.train().seed());
    info.plan_digest = context_.task.plan().plan_digest();
    info.build = context_.build;
    info.isa = kernels::IsaName();
    info.device_kind = job_.resources().device();
    info.job_spec = job_text_;
    if (program_.loss_scaling) {
      info.loss_scale = loss_scale_.value;
      info.good_steps = loss_scale_.good_steps;
    }
    info.data_files = ToManifest(context_.task.plan().data_files());
    // The next step waits for the disk where it changes what is being written.
    context_.progress->SetCheckpointStep(step_ + 1);
    context_.progress->SetPhase(Phase::kCommitting);
    // Also what goes home on other streams than updates'.
    RETURN_IF_ERROR(engine().Drain());
    const absl::Status status =
        checkpoints_->Begin(info, SnapshotItems(engine(), state_, applied_));
    context_.progress->SetPhase(Phase::kTraining);
    return status;
  }

  const TaskContext& context_;
  const v1::JobSpec& job_;
  const int rank_;
  const TrainingProgram program_;
  const data::Corpus& corpus_;
  const program::Mesh mesh_;
  const RankState state_;
  TrainingHostOps host_;
  int64_t step_;  // done
  int64_t applied_ = 0;
  model::LossScale loss_scale_;  // of the next step
  const std::string job_text_;
  static constexpr int train_ = 0, evaluate_ = 1;  // programs, in the builder's order
  std::unique_ptr<RankEngine> rank_engine_;
  // Last: what they still write of the engine's memory is finished before it goes.
  std::optional<Commits> commits_;
  std::optional<Checkpointing> checkpoints_;
};

}  // namespace

namespace {

// A checkpoint holds them all, but where they are frozen.
bool BeginsWithWeights(const v1::TrainerTask& task, const v1::JobPlan& plan) {
  const bool anew = plan.checkpoint_folder().empty() && !plan.has_newer_checkpoint();
  return (anew || model::TrainsAdapters(task.job().train())) && HasBaseWeights(task.job().model());
}

}  // namespace

absl::StatusOr<v1::JobPlan> PlanTraining(const TaskContext& context) {
  const v1::TrainerTask& task = context.task;
  v1::JobPlan plan;
  ASSIGN_OR_RETURN(const data::Corpus corpus, OpenJobCorpus(task.job()));
  ASSIGN_OR_RETURN(*plan.mutable_data_files(), IdentifyDataFiles(task.job()));
  ASSIGN_OR_RETURN(const TrainingProgram program, CompileTraining(task, corpus, context.build));
  plan.set_plan_digest(program.digest);
  plan.set_parameters(program.parameters);
  std::vector<program::StagePrograms> all;
  std::vector<const program::ProgramSet*> stages = {&program.programs.set};
  if (program.mesh.sizes.pipeline > 1) {
    ASSIGN_OR_RETURN(all, CompileStages(task, corpus, context.build));
    stages.clear();
    for (const program::StagePrograms& stage : all) stages.push_back(&stage.set);
  }
  RETURN_IF_ERROR(CheckLimits(task, stages));
  DescribeArenas(stages, program.mesh, plan);
  if (program.stream.has_value()) TellStreaming(task, *program.stream, plan);
  RETURN_IF_ERROR(PredictStep(task, stages, program.mesh, plan));
  RETURN_IF_ERROR(FindStartingPoint(task, plan));
  if (BeginsWithWeights(task, plan)) RETURN_IF_ERROR(CheckBaseWeights(task.job().model()));
  return plan;
}

absl::StatusOr<v1::Finished::Outcome> RunTraining(const TaskContext& context) {
  ASSIGN_OR_RETURN(const data::Corpus corpus, OpenJobCorpus(context.task.job()));
  RETURN_IF_ERROR(CheckUnchanged(context.task.job(), context.task.plan()));
  if (BeginsWithWeights(context.task, context.task.plan())) {
    RETURN_IF_ERROR(CheckBaseWeights(context.task.job().model()));
  }
  ASSIGN_OR_RETURN(TrainingProgram program, CompileTraining(context.task, corpus, context.build));
  ASSIGN_OR_RETURN(CountedCorpus counted, CountCorpus(corpus));
  if (context.parts.plant != nullptr) context.parts.plant(program.programs.set);
  return Training(context, std::move(program), corpus, std::move(counted)).Run();
}

}  // namespace strata::worker
