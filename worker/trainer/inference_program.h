// From a checkpoint's model to its prefill and decode programs.
#ifndef STRATA_WORKER_TRAINER_INFERENCE_PROGRAM_H_
#define STRATA_WORKER_TRAINER_INFERENCE_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "checkpoint/manifest.h"
#include "model/model_spec.h"
#include "program/compose/decode.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::worker {

struct InferenceProgram {
  std::string digest;  // of the plan
  model::ModelSpec model;
  int64_t trained_sequence = 0;
  int64_t chunk = 0;      // rows of a prefill pass
  int64_t rope_rows = 0;  // of constant 0
  program::DecodePrograms programs;
};

// The job that a checkpoint belongs to. DataLoss: the manifest holds none.
absl::StatusOr<v1::JobSpec> JobOf(const checkpoint::Manifest& manifest);
// Its text for a manifest.
std::string JobText(const v1::JobSpec& job);

// `largest_chunk`: rows of a prefill pass, at most; `threads`: of the process; `build`: see
// BuildMark.
absl::StatusOr<InferenceProgram> CompileInference(const v1::JobSpec& job, int64_t largest_chunk,
                                                  int threads, const std::string& build);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_INFERENCE_PROGRAM_H_
