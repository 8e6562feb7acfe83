// What `--from` names: a checkpoint, or a Hugging Face directory, to generate from or to evaluate.
#ifndef STRATA_CLIENT_CHECKPOINT_SOURCE_H_
#define STRATA_CLIENT_CHECKPOINT_SOURCE_H_

#include <string>

#include "absl/status/statusor.h"

namespace strata::client {

// The absolute path of a `step-N` folder, or of a directory of them, also as `checkpoints` in a
// job's directory; or of a Hugging Face directory. Only looks whether one is there: damage is
// found, and named, by the worker that reads it. InvalidArgument otherwise, naming the path and the
// flag that gave it (empty: an argument).
absl::StatusOr<std::string> FindCheckpoint(const std::string& from,
                                           absl::string_view flag = "--from");

}  // namespace strata::client

#endif  // STRATA_CLIENT_CHECKPOINT_SOURCE_H_
