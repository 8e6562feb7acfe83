// From a checkpoint's model to its prefill and decode programs, of one rank or of several that
// share its layers.
#ifndef STRATA_WORKER_TRAINER_INFERENCE_PROGRAM_H_
#define STRATA_WORKER_TRAINER_INFERENCE_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/manifest.h"
#include "model/model_spec.h"
#include "program/compose/decode.h"
#include "program/ir/mesh.h"
#include "proto/strata/v1/job.pb.h"
#include "proto/strata/v1/trainer.pb.h"

namespace strata::worker {

struct InferenceProgram {
  std::string digest;                          // of the plan
  model::ModelSpec model;                      // its context is no longer than the task needs
  program::DType type = program::DType::kF32;  // that it computes in, and of the logits
  int64_t trained_sequence = 0;
  int64_t given_tokens = 0;   // of a window or a prompt
  int64_t parameters = 0;     // of the model
  int64_t chunk = 0;          // rows of a prefill pass
  int64_t constant_rows = 0;  // of the rotary tables
  std::vector<program::Constant> constants;
  std::vector<program::DecodePrograms> stages;  // by rank

  program::Mesh mesh() const { return {stages.front().set.groups}; }
  std::vector<const program::ProgramSet*> sets() const;
};

// The job that a checkpoint belongs to. DataLoss: the manifest holds none.
absl::StatusOr<v1::JobSpec> JobOf(const checkpoint::Manifest& manifest);
// Its text for a manifest.
std::string JobText(const v1::JobSpec& job);

// `largest_chunk`: rows of a prefill pass, at most; `ranks`, `threads` of each: of the task;
// `build`: see BuildMark. InvalidArgument: more ranks than the model has layers.
absl::StatusOr<InferenceProgram> CompileInference(const v1::JobSpec& job, int64_t largest_chunk,
                                                  const v1::TrainerTask& task,
                                                  const std::string& build);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_INFERENCE_PROGRAM_H_
