// The sizes of a model that a Hugging Face directory holds.
#ifndef STRATA_CLIENT_MODEL_SIZES_H_
#define STRATA_CLIENT_MODEL_SIZES_H_

#include <string>

#include "absl/status/statusor.h"
#include "model/model_spec.h"

namespace strata::client {

// From `folder`/config.json alone; weights need not be there. InvalidArgument with the file's path:
// it is missing, too large or no JSON object, a size is missing or impossible, or the model's type
// is not one of llama, mistral, qwen2, qwen3 and gpt2.
absl::StatusOr<model::ModelSpec> ReadModelSizes(const std::string& folder);

}  // namespace strata::client

#endif  // STRATA_CLIENT_MODEL_SIZES_H_
