// A Hugging Face directory as the model that jobs and commands begin from.
#ifndef STRATA_CHECKPOINT_HUGGINGFACE_MODEL_FOLDER_H_
#define STRATA_CHECKPOINT_HUGGINGFACE_MODEL_FOLDER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::checkpoint {

struct ModelFolder {
  v1::ModelSpec model;  // what config.json tells; of a possible model
  bool has_tokenizer = false;
  std::vector<std::string> notices;  // for the user
};

// From config.json alone; weights need not be there. `path` is absolute. InvalidArgument, every
// problem on a line with the file's path.
absl::StatusOr<ModelFolder> OpenModelFolder(const std::string& path);

// InvalidArgument where the directory has a tokenizer in forms alone that are not read
// (SentencePiece), so that what its model reads instead of text is not known. OK: there is one that
// is read, or none, and tokens are bytes.
absl::Status CheckTokenizerForm(const std::string& path);

// A job of which the model is all that is known, with the directory's tokenizer where it has one:
// what generates or is evaluated. Errors of OpenModelFolder.
absl::StatusOr<v1::JobSpec> JobOfModelFolder(const std::string& path);

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_HUGGINGFACE_MODEL_FOLDER_H_
