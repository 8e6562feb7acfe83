// The Hugging Face weights that a job's model begins with.
#ifndef STRATA_WORKER_TRAINER_BASE_WEIGHTS_H_
#define STRATA_WORKER_TRAINER_BASE_WEIGHTS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/file_system.h"
#include "checkpoint/huggingface/weights.h"
#include "program/ir/parameter_set.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::worker {

// Whether there are any: a directory may describe a model only.
inline bool HasBaseWeights(const v1::ModelSpec& model) { return model.weights_size() > 0; }

// InvalidArgument: a file is another one than when the job was handed over, or what all of them
// hold is not the job's model. Each problem is a line.
absl::Status CheckBaseWeights(const v1::ModelSpec& model);

// The job of a Hugging Face directory whose weights are used as they are; sequences of at most 1024
// tokens. InvalidArgument: config.json cannot be used, or there are no weights that are the
// model's.
absl::StatusOr<v1::JobSpec> JobOfWeights(const std::string& folder);

// Opened for what a rank holds of them, without tensors of adapters. `files` outlives the result.
absl::StatusOr<std::unique_ptr<checkpoint::HuggingFaceWeights>> OpenBaseWeights(
    const v1::ModelSpec& model, const std::vector<program::ParameterSet>& sets,
    checkpoint::FileSystem* files);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_BASE_WEIGHTS_H_
