#include "worker/trainer/inference_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "checkpoint/huggingface/config.h"
#include "checkpoint/huggingface/weights.h"
#include "checkpoint/reader.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "kernels/state_format.h"
#include "model/lora_proto.h"
#include "model/rope_table.h"
#include "program/ir/scalars.h"
#include "worker/engine/binding/number_type.h"
#include "worker/trainer/base_weights.h"
#include "worker/trainer/memory_plan.h"
#include "worker/trainer/program_digest.h"
#include "worker/trainer/state_io.h"

namespace strata::worker {
namespace {

constexpr int kPrefill = 0, kDecode = 1;  // programs, in the builder's order

absl::Status PlanCheckpoint(const std::string& path, v1::JobPlan& plan, v1::JobSpec* job) {
  ASSIGN_OR_RETURN(const checkpoint::NewestIntact found, checkpoint::OpenCheckpoint(path));
  ASSIGN_OR_RETURN(*job, JobOf(found.checkpoint->manifest()));
  plan.set_checkpoint_folder(found.checkpoint->folder());
  for (const checkpoint::Damage& damage : found.damaged) {
    v1::Notice* const notice = plan.add_notices();
    notice->set_severity(v1::Notice::SEVERITY_WARNING);
    notice->set_text(
        absl::StrCat("damaged checkpoint: ", damage.what, " — using ", found.checkpoint->folder()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status InferenceSession::Host::LoadBatch(const BatchRows& rows) {
  std::fill_n(rows.tokens, rows.samples * rows.sequence, 0);
  std::fill_n(rows.targets, rows.samples * rows.sequence, -1);
  std::copy(tokens_.begin(), tokens_.end(), rows.tokens);
  return absl::OkStatus();
}

absl::Status InferenceSession::Host::LoadScalars(double* scalars) {
  using program::Scalar;
  const auto set = [&](Scalar scalar, double value) { scalars[static_cast<int>(scalar)] = value; };
  set(Scalar::kStep, 0);
  set(Scalar::kApplied, 0);
  set(Scalar::kLearningRate, 0);
  set(Scalar::kInverseTokens, 1);
  set(Scalar::kPosition, static_cast<double>(position_));
  set(Scalar::kValidTokens, static_cast<double>(tokens_.size()));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<InferenceSession>> InferenceSession::Open(const TaskContext& context,
                                                                         int64_t largest_chunk) {
  const std::string& folder = context.task.plan().checkpoint_folder();
  std::unique_ptr<checkpoint::Checkpoint> source;  // null: a Hugging Face directory
  v1::JobSpec job;
  if (checkpoint::IsModelFolder(folder)) {
    ASSIGN_OR_RETURN(job, JobOfWeights(folder));
  } else {
    ASSIGN_OR_RETURN(source,
                     checkpoint::Checkpoint::OpenFolder(folder, checkpoint::Verification::kOnRead));
    ASSIGN_OR_RETURN(job, JobOf(source->manifest()));
  }
  ASSIGN_OR_RETURN(InferenceProgram program,
                   CompileInference(job, largest_chunk, context.task, context.build));
  const int rank = context.task.rank();
  std::unique_ptr<InferenceSession> session(new InferenceSession(std::move(program), rank));
  const program::DecodePrograms& programs = session->own_;
  // Rank 0 sees to it that the stages go together.
  const std::vector<const program::ProgramSet*> stages =
      rank == 0 ? session->program_.sets() : std::vector<const program::ProgramSet*>();
  ASSIGN_OR_RETURN(session->rank_engine_,
                   RankEngine::Create(context, programs.set, session->program_.mesh(), stages,
                                      session->program_.digest, &session->host_));
  Engine& engine = session->rank_engine_->engine();
  RETURN_IF_ERROR(session->FillTables());
  RankState state;
  for (const int slot : programs.slots.parameters) {
    state.slots.sets.push_back({.parameters = slot});
  }
  if (source != nullptr) RETURN_IF_ERROR(LoadState(engine, state, 0, *source));
  if (source == nullptr || model::TrainsAdapters(job.train())) {
    ASSIGN_OR_RETURN(const std::unique_ptr<checkpoint::HuggingFaceWeights> weights,
                     OpenBaseWeights(job.model(), engine.programs().sets, context.files));
    const Sets which = source == nullptr ? Sets::kAll : Sets::kFrozen;
    RETURN_IF_ERROR(LoadWeights(engine, state, which, *weights));
  }
  context.progress->SetPhase(Phase::kEvaluating);
  v1::TrainerEvent running;
  session->rank_engine_->memory().Read(engine, running.mutable_running()->mutable_memory());
  context.control->Send(running);
  return session;
}

absl::Status InferenceSession::FillTables() {
  return FillConstants(rank_engine_->engine(), program_.model, program_.constants,
                       own_.slots.constants, {{.count = program_.constant_rows}}, text_tokens_);
}

absl::StatusOr<bool> InferenceSession::GrowTo(int64_t length) {
  const bool extended = model::IsExtended(program_.model, text_tokens_);
  text_tokens_ = std::max(text_tokens_, length);
  if (model::IsExtended(program_.model, text_tokens_) == extended) return false;
  RETURN_IF_ERROR(FillTables());
  return true;
}

absl::StatusOr<absl::Span<const float>> InferenceSession::Read(absl::Span<const int32_t> tokens,
                                                               int64_t position) {
  const int64_t count = static_cast<int64_t>(tokens.size());
  STRATA_CHECK(count >= 1 && count <= chunk());
  STRATA_CHECK(position >= 0 && position + count <= program_.model.context);
  host_.Set(tokens, position);
  Engine& engine = rank_engine_->engine();
  RETURN_IF_ERROR(engine.RunStep(count == 1 ? kDecode : kPrefill, 0));
  RETURN_IF_ERROR(engine.Drain());  // a rank that leaves has sent what the others wait for
  const std::byte* const logits = engine.SlotBytes(own_.slots.logits, 0, 0).data();
  const auto values = static_cast<size_t>(count * program_.model.vocab);
  if (program_.type == program::DType::kF32) {
    return absl::MakeConstSpan(reinterpret_cast<const float*>(logits), values);
  }
  wide_logits_.resize(values);
  kernels::ReadNumbers(NumberTypeOf(program_.type), logits, 0, static_cast<int64_t>(values),
                       wide_logits_.data());
  return wide_logits_;
}

absl::StatusOr<v1::JobPlan> PlanInference(const TaskContext& context, const std::string& path,
                                          int64_t largest_chunk, v1::JobSpec* job) {
  v1::JobPlan plan;
  if (checkpoint::IsModelFolder(path)) {
    ASSIGN_OR_RETURN(*job, JobOfWeights(path));
    plan.set_checkpoint_folder(path);
  } else {
    RETURN_IF_ERROR(PlanCheckpoint(path, plan, job));
  }
  ASSIGN_OR_RETURN(const InferenceProgram program,
                   CompileInference(*job, largest_chunk, context.task, context.build));
  plan.set_plan_digest(program.digest);
  plan.set_parameters(program.parameters);
  RETURN_IF_ERROR(CheckLimits(context.task, program.sets()));
  DescribeArenas(program.sets(), program.mesh(), plan);
  return plan;
}

}  // namespace strata::worker
