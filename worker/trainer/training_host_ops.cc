#include "worker/trainer/training_host_ops.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "program/ir/scalars.h"
#include "worker/trainer/watched_file_system.h"

namespace strata::worker {

absl::StatusOr<CountedCorpus> CountCorpus(const data::Corpus& corpus) {
  ASSIGN_OR_RETURN(data::TrainedTokens train, data::TrainedTokens::Count(corpus.train));
  ASSIGN_OR_RETURN(data::TrainedTokens validation, data::TrainedTokens::Count(corpus.validation));
  return CountedCorpus{std::move(train), std::move(validation)};
}

TrainingHostOps::TrainingHostOps(const TrainingProgram* program, const data::Corpus& corpus,
                                 CountedCorpus counted, uint64_t seed, bool shuffle, int rank,
                                 ProgressWriter* progress,
                                 std::function<absl::Status()> at_snapshot_gate)
    : program_(program),
      data_index_(program->mesh.data(rank)),
      own_length_(program->sequence / program->mesh.sizes.context),
      progress_(progress),
      at_snapshot_gate_(std::move(at_snapshot_gate)),
      training_split_(corpus.train),
      validation_split_(corpus.validation),
      counted_(std::move(counted)),
      sampler_(corpus.train, seed, shuffle),
      training_(corpus.train),
      validation_(corpus.validation),
      window_tokens_(program->sequence),
      window_targets_(program->sequence),
      window_positions_(program->sequence) {}

absl::Status TrainingHostOps::BeginStep(int64_t step, int64_t applied, double loss_scale) {
  evaluating_ = false;
  loss_scale_ = loss_scale;
  step_ = step;
  applied_ = applied;
  next_row_ = 0;
  learning_rate_ = model::LearningRate(program_->schedule, step);
  const int64_t first = (step - 1) * program_->global_batch;
  tokens_ = counted_.train.Of(sampler_, first, program_->global_batch);
  if (tokens_ > 0) return absl::OkStatus();
  std::set<std::string> files;
  for (int64_t i = 0; i < program_->global_batch; ++i) {
    const data::SampleRef sample = sampler_.At(first + i);
    files.insert(training_split_.sources[sample.source].tokens->path());
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "step ", step, ": no token of its ", program_->global_batch, " sequences is trained on, by ",
      "the masks of ", absl::StrJoin(files, ", "),
      " — take out what is not to be learned from, or use a larger train.global_batch"));
}

absl::Status TrainingHostOps::BeginEvaluation(int64_t step, int64_t applied) {
  evaluating_ = true;
  loss_scale_ = 1;
  step_ = step;
  applied_ = applied;
  next_row_ = 0;
  tokens_ = counted_.validation.OfSpread(program_->evaluate_sequences);
  if (tokens_ > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "validation after step ", step, ": no token of its ", program_->evaluate_sequences,
      " sequences is trained on, by the mask of ", validation_split_.sources[0].tokens->path(),
      " — use a larger evaluate.sequences, or other data.validation"));
}

absl::Status TrainingHostOps::LoadBatch(const BatchRows& rows) {
  const absl::Status status = evaluating_ ? LoadValidation(rows) : LoadTraining(rows);
  next_row_ += rows.samples;
  return status;
}

absl::Status TrainingHostOps::LoadWindow(data::BatchReader& reader, const data::Split& split,
                                         const data::TrainedTokens& counted, data::SampleRef window,
                                         const BatchRows& rows, int64_t sample) {
  {
    const StorageOperation operation(progress_);
    RETURN_IF_ERROR(reader.ReadWindow(window, window_tokens_.data(), window_targets_.data(),
                                      window_positions_.data()));
  }
  const int64_t trained = std::count_if(window_targets_.begin(), window_targets_.end(),
                                        [](int32_t target) { return target >= 0; });
  if (trained != counted.Of(window)) {
    return absl::DataLossError(
        absl::StrCat(split.sources[window.source].tokens->path(),
                     ": has changed since it was opened: ", trained, " tokens of window ",
                     window.window, " are trained on, where ", counted.Of(window), " were"));
  }
  const int64_t to = sample * own_length_;
  for (const program::ContextRun& run : program_->own_rows) {
    const auto take = [&](const std::vector<int32_t>& from, int32_t* all) {
      std::copy_n(from.begin() + run.position, run.count, all + to + run.first);
    };
    take(window_tokens_, rows.tokens);
    take(window_targets_, rows.targets);
    if (rows.positions != nullptr) take(window_positions_, rows.positions);
  }
  return absl::OkStatus();
}

void TrainingHostOps::LoadPadding(const BatchRows& rows, int64_t sample) const {
  std::fill_n(rows.tokens + sample * own_length_, own_length_, 0);
  std::fill_n(rows.targets + sample * own_length_, own_length_, -1);
  if (rows.positions != nullptr) {
    std::fill_n(rows.positions + sample * own_length_, own_length_, 0);
  }
}

// Samples belong to leaves, leaves to ranks.
absl::Status TrainingHostOps::LoadTraining(const BatchRows& rows) {
  const int64_t batch = program_->global_batch;
  const int64_t of_leaf = batch / program_->leaves.count;
  for (int64_t row = 0; row < rows.samples; ++row) {
    const int64_t at = next_row_ + row;
    const int64_t sample = program_->leaves.Of(data_index_, at / of_leaf) * of_leaf + at % of_leaf;
    RETURN_IF_ERROR(LoadWindow(training_, training_split_, counted_.train,
                               sampler_.At((step_ - 1) * batch + sample), rows, row));
  }
  return absl::OkStatus();
}

absl::Status TrainingHostOps::LoadValidation(const BatchRows& rows) {
  const program::EvaluateShape& shape = program_->evaluate_shape;
  for (int64_t row = 0; row < rows.samples; ++row) {
    const int64_t of_losses = program_->leaves.RowOf(data_index_, (next_row_ + row) / shape.padded);
    const int64_t place = (next_row_ + row) % shape.padded;
    const int64_t index = of_losses * shape.sequences + place;
    if (place >= shape.sequences || index >= program_->evaluate_sequences) {
      LoadPadding(rows, row);
      continue;
    }
    RETURN_IF_ERROR(LoadWindow(validation_, validation_split_, counted_.validation,
                               validation_split_.Spread(index, program_->evaluate_sequences), rows,
                               row));
  }
  return absl::OkStatus();
}

absl::Status TrainingHostOps::LoadScalars(double* scalars) {
  using program::Scalar;
  const auto set = [&](Scalar scalar, double value) { scalars[static_cast<int>(scalar)] = value; };
  set(Scalar::kStep, static_cast<double>(step_));
  set(Scalar::kApplied, static_cast<double>(applied_));
  set(Scalar::kLearningRate, learning_rate_);
  set(Scalar::kInverseTokens, loss_scale_ / static_cast<double>(tokens_));
  set(Scalar::kPosition, 0);
  set(Scalar::kValidTokens, 0);
  if (program_->loss_scaling) set(Scalar::kLossScale, loss_scale_);
  return absl::OkStatus();
}

absl::Status TrainingHostOps::Signal(program::Purpose purpose, const std::string&) {
  return purpose == program::Purpose::kSnapshot ? at_snapshot_gate_() : absl::OkStatus();
}

}  // namespace strata::worker
