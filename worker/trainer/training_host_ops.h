// What a training or evaluation step asks of its process: samples, scalars, and the wait at the
// snapshot gate.
#ifndef STRATA_WORKER_TRAINER_TRAINING_HOST_OPS_H_
#define STRATA_WORKER_TRAINER_TRAINING_HOST_OPS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "data/batch_reader.h"
#include "data/sampler.h"
#include "data/trained_tokens.h"
#include "worker/engine/host_ops.h"
#include "worker/shared/progress_writer.h"
#include "worker/trainer/training_program.h"

namespace strata::worker {

// How many tokens of a corpus's windows are trained on, and validated on.
struct CountedCorpus {
  data::TrainedTokens train, validation;
};
absl::StatusOr<CountedCorpus> CountCorpus(const data::Corpus& corpus);

// Used on the thread that runs steps.
class TrainingHostOps final : public HostOps {
 public:
  // `program` is borrowed; `rank`: in the mesh.
  // `at_snapshot_gate`: nothing before the step's first update may still be read by others after it
  // returns.
  // What is read of files is seen in `progress`. Pointers are borrowed.
  TrainingHostOps(const TrainingProgram* program, const data::Corpus& corpus, CountedCorpus counted,
                  uint64_t seed, bool shuffle, int rank, ProgressWriter* progress,
                  std::function<absl::Status()> at_snapshot_gate);

  // What the next RunStep is for. InvalidArgument: no token of it is trained on, of which there is
  // no mean.
  // `loss_scale`: what the loss's gradient is multiplied by; 1 where the program scales nothing.
  absl::Status BeginStep(int64_t step, int64_t applied, double loss_scale);
  absl::Status BeginEvaluation(int64_t step, int64_t applied);

  double learning_rate() const { return learning_rate_; }
  // Trained tokens of the whole step or evaluation.
  int64_t tokens() const { return tokens_; }

  absl::Status LoadBatch(const BatchRows& rows) override;
  absl::Status LoadScalars(double* scalars) override;
  absl::Status Signal(program::Purpose purpose, const std::string& label) override;

 private:
  absl::Status LoadTraining(const BatchRows& rows);
  absl::Status LoadValidation(const BatchRows& rows);
  // Reads a window and takes the rank's rows of it as the batch's of `sample`.
  absl::Status LoadWindow(data::BatchReader& reader, const data::Split& split,
                          const data::TrainedTokens& counted, data::SampleRef window,
                          const BatchRows& rows, int64_t sample);
  void LoadPadding(const BatchRows& rows, int64_t sample) const;

  const TrainingProgram* const program_;
  const int data_index_;
  const int64_t own_length_;
  ProgressWriter* const progress_;
  const std::function<absl::Status()> at_snapshot_gate_;
  const data::Split training_split_, validation_split_;
  const CountedCorpus counted_;
  const data::Sampler sampler_;
  data::BatchReader training_;
  data::BatchReader validation_;
  bool evaluating_ = false;
  int64_t step_ = 0;
  int64_t applied_ = 0;
  double loss_scale_ = 1;
  std::vector<int32_t> window_tokens_, window_targets_, window_positions_;  // a sequence whole
  int64_t next_row_ = 0;  // of this rank's rows of the step
  double learning_rate_ = 0;
  int64_t tokens_ = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_TRAINING_HOST_OPS_H_
