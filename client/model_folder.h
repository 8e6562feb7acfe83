// The weights of a Hugging Face directory, as jobs name them.
#ifndef STRATA_CLIENT_MODEL_FOLDER_H_
#define STRATA_CLIENT_MODEL_FOLDER_H_

#include <string>

#include "absl/status/status.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::client {

// Sets `from`, and of the directory's weights their files as they are now and the type that most
// of them have; nothing where there are none. InvalidArgument, every problem on a line: files that
// do not go together, with each other or with the model.
absl::Status AddWeights(const std::string& path, v1::ModelSpec* model);

}  // namespace strata::client

#endif  // STRATA_CLIENT_MODEL_FOLDER_H_
