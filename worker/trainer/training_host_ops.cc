#include "worker/trainer/training_host_ops.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "program/ir/scalars.h"
#include "worker/trainer/watched_file_system.h"

namespace strata::worker {

TrainingHostOps::TrainingHostOps(const TrainingProgram* program, const data::Corpus& corpus,
                                 uint64_t seed, bool shuffle, int rank, ProgressWriter* progress,
                                 std::function<absl::Status()> at_snapshot_gate)
    : program_(program),
      data_index_(program->mesh.data(rank)),
      own_length_(program->sequence / program->mesh.sizes.context),
      progress_(progress),
      at_snapshot_gate_(std::move(at_snapshot_gate)),
      validation_split_(corpus.validation),
      sampler_(corpus.train, seed, shuffle),
      training_(corpus.train),
      validation_(corpus.validation),
      window_tokens_(program->sequence),
      window_targets_(program->sequence) {}

void TrainingHostOps::TakeOwnRows(int32_t* tokens, int32_t* targets) const {
  for (const program::ContextRun& run : program_->own_rows) {
    std::copy_n(window_tokens_.begin() + run.position, run.count, tokens + run.first);
    std::copy_n(window_targets_.begin() + run.position, run.count, targets + run.first);
  }
}

void TrainingHostOps::BeginStep(int64_t step, int64_t applied) {
  evaluating_ = false;
  step_ = step;
  applied_ = applied;
  next_row_ = 0;
  learning_rate_ = model::LearningRate(program_->schedule, step);
  tokens_ = program_->global_batch * program_->sequence;
}

void TrainingHostOps::BeginEvaluation(int64_t step, int64_t applied) {
  evaluating_ = true;
  step_ = step;
  applied_ = applied;
  next_row_ = 0;
  tokens_ = program_->evaluate_sequences * program_->sequence;
}

absl::Status TrainingHostOps::LoadBatch(int32_t* tokens, int32_t* targets, int64_t samples,
                                        int64_t) {
  const absl::Status status = evaluating_ ? LoadValidation(tokens, targets, samples)
                                          : LoadTraining(tokens, targets, samples);
  next_row_ += samples;
  return status;
}

// Samples belong to leaves, leaves to ranks.
absl::Status TrainingHostOps::LoadTraining(int32_t* tokens, int32_t* targets, int64_t samples) {
  const int64_t batch = program_->global_batch;
  const int64_t of_leaf = batch / program_->leaves.count;
  for (int64_t row = 0; row < samples; ++row) {
    const int64_t at = next_row_ + row;
    const int64_t sample = program_->leaves.Of(data_index_, at / of_leaf) * of_leaf + at % of_leaf;
    const StorageOperation operation(progress_);
    RETURN_IF_ERROR(training_.ReadBatch(sampler_, (step_ - 1) * batch + sample, /*count=*/1,
                                        window_tokens_.data(), window_targets_.data()));
    TakeOwnRows(tokens + row * own_length_, targets + row * own_length_);
  }
  return absl::OkStatus();
}

absl::Status TrainingHostOps::LoadValidation(int32_t* tokens, int32_t* targets, int64_t samples) {
  const program::EvaluateShape& shape = program_->evaluate_shape;
  for (int64_t row = 0; row < samples; ++row) {
    int32_t* const row_tokens = tokens + row * own_length_;
    int32_t* const row_targets = targets + row * own_length_;
    const int64_t of_losses = program_->leaves.RowOf(data_index_, (next_row_ + row) / shape.padded);
    const int64_t place = (next_row_ + row) % shape.padded;
    const int64_t index = of_losses * shape.sequences + place;
    if (place < shape.sequences && index < program_->evaluate_sequences) {
      const StorageOperation operation(progress_);
      RETURN_IF_ERROR(
          validation_.ReadWindow(validation_split_.Spread(index, program_->evaluate_sequences),
                                 window_tokens_.data(), window_targets_.data()));
      TakeOwnRows(row_tokens, row_targets);
    } else {
      std::fill_n(row_tokens, own_length_, 0);
      std::fill_n(row_targets, own_length_, -1);
    }
  }
  return absl::OkStatus();
}

absl::Status TrainingHostOps::LoadScalars(double* scalars) {
  using program::Scalar;
  const auto set = [&](Scalar scalar, double value) { scalars[static_cast<int>(scalar)] = value; };
  set(Scalar::kStep, static_cast<double>(step_));
  set(Scalar::kApplied, static_cast<double>(applied_));
  set(Scalar::kLearningRate, learning_rate_);
  set(Scalar::kInverseTokens, 1.0 / static_cast<double>(tokens_));
  set(Scalar::kPosition, 0);
  set(Scalar::kValidTokens, 0);
  return absl::OkStatus();
}

absl::Status TrainingHostOps::Signal(program::Purpose purpose, const std::string&) {
  return purpose == program::Purpose::kSnapshot ? at_snapshot_gate_() : absl::OkStatus();
}

}  // namespace strata::worker
