// A model from a checkpoint or a Hugging Face directory that reads tokens and says what may follow:
// prefill and decode over a cache of keys and values. Of several ranks each has a part of the
// layers; all read the same, and all are told what may follow.
#ifndef STRATA_WORKER_TRAINER_INFERENCE_SESSION_H_
#define STRATA_WORKER_TRAINER_INFERENCE_SESSION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/engine/host_ops.h"
#include "worker/trainer/inference_program.h"
#include "worker/trainer/rank_engine.h"

namespace strata::worker {

// Used by one thread.
class InferenceSession {
 public:
  // Opens the plan's checkpoint or Hugging Face directory, joins and loads, of the rank's layers.
  static absl::StatusOr<std::unique_ptr<InferenceSession>> Open(const TaskContext& context,
                                                                int64_t largest_chunk);

  const InferenceProgram& program() const { return program_; }
  int64_t chunk() const { return program_.chunk; }
  device::ThreadPool& pool() { return rank_engine_->pool(); }

  // Says that the text is to be `length` tokens long. True: longrope turns all positions of a text
  // of that length otherwise, so that what has been read must be read again.
  absl::StatusOr<bool> GrowTo(int64_t length);

  // Reads tokens that stand at `position` and after; earlier positions have been read, later ones
  // are forgotten. Returns the logits [tokens, vocab], valid until the next call. At most `chunk`
  // tokens, which end within the context.
  absl::StatusOr<absl::Span<const float>> Read(absl::Span<const int32_t> tokens, int64_t position);

 private:
  class Host final : public HostOps {
   public:
    void Set(absl::Span<const int32_t> tokens, int64_t position) {
      tokens_ = tokens;
      position_ = position;
    }
    absl::Status LoadBatch(const BatchRows& rows) override;
    absl::Status LoadScalars(double* scalars) override;
    absl::Status Signal(program::Purpose, const std::string&) override { return absl::OkStatus(); }

   private:
    absl::Span<const int32_t> tokens_;
    int64_t position_ = 0;
  };

  InferenceSession(InferenceProgram program, int rank)
      : program_(std::move(program)),
        own_(program_.stages[rank]),
        text_tokens_(program_.given_tokens) {}

  absl::Status FillTables();  // rotary ones, of the text's length

  const InferenceProgram program_;
  const program::DecodePrograms& own_;  // of its stages
  int64_t text_tokens_;
  Host host_;
  std::unique_ptr<RankEngine> rank_engine_;
  std::vector<float> wide_logits_;  // of a model that computes in fewer bits
};

// What is fixed before: the newest intact checkpoint at `path`, or the Hugging Face directory that
// it is, its program. NotFound, InvalidArgument and DataLoss name folders and files. `job`: of the
// checkpoint.
absl::StatusOr<v1::JobPlan> PlanInference(const TaskContext& context, const std::string& path,
                                          int64_t largest_chunk, v1::JobSpec* job);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_INFERENCE_SESSION_H_
