// Flags of commands that compute with a trained model, without a job file.
#ifndef STRATA_CLIENT_INFERENCE_FLAGS_H_
#define STRATA_CLIENT_INFERENCE_FLAGS_H_

#include <vector>

#include "absl/status/status.h"
#include "client/command_line/command.h"
#include "proto/strata/v1/standalone.pb.h"

namespace strata::client {

// --ranks, --precision, --device and --memory.
std::vector<Flag> InferenceFlags();
// Sets what they say in the request, and threads for each rank. InvalidArgument: several ranks on
// a GPU, or what is wrong with the text of --memory.
absl::Status SetInference(const Arguments& arguments, strata::v1::StandaloneRequest& request);

}  // namespace strata::client

#endif  // STRATA_CLIENT_INFERENCE_FLAGS_H_
