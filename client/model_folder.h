// A Hugging Face directory, as jobs and commands begin from it.
#ifndef STRATA_CLIENT_MODEL_FOLDER_H_
#define STRATA_CLIENT_MODEL_FOLDER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::client {

struct ModelFolder {
  v1::ModelSpec model;  // what config.json tells; of a possible model
  bool has_tokenizer = false;
  std::vector<std::string> notices;  // for the user
};

// From config.json alone; weights need not be there. `path` is absolute. InvalidArgument, every
// problem on a line with the file's path.
absl::StatusOr<ModelFolder> OpenModelFolder(const std::string& path);

// Sets `from`, and of the directory's weights their files as they are now and the type that most
// of them have; nothing where there are none. InvalidArgument, every problem on a line: files that
// do not go together, with each other or with the model.
absl::Status AddWeights(const std::string& path, v1::ModelSpec* model);

// A job of which the model is all that is known: what generates or is evaluated.
absl::StatusOr<v1::JobSpec> JobOfModelFolder(const std::string& path);

}  // namespace strata::client

#endif  // STRATA_CLIENT_MODEL_FOLDER_H_
