// The job that a checkpoint or a Hugging Face directory belongs to, without looking at its weights.
#ifndef STRATA_CLIENT_CHECKPOINT_JOB_H_
#define STRATA_CLIENT_CHECKPOINT_JOB_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::client {

// Of a `step-N` folder, or of the newest in a directory of them whose manifest can be read.
// Of a Hugging Face directory the model and the tokenizer alone.
// InvalidArgument naming the path: there is none, or it holds no job.
absl::StatusOr<v1::JobSpec> JobOfCheckpoint(const std::string& path);

}  // namespace strata::client

#endif  // STRATA_CLIENT_CHECKPOINT_JOB_H_
