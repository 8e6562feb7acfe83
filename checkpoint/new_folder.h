// Folders that appear whole or not at all.
#ifndef STRATA_CHECKPOINT_NEW_FOLDER_H_
#define STRATA_CHECKPOINT_NEW_FOLDER_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "checkpoint/file_system.h"

namespace strata::checkpoint {

// Makes `folder` (an absolute path) of what `fill` writes into a folder beside it, which is gone
// afterwards whatever happens. AlreadyExists: something is there that is no empty folder; else
// errors of `fill` and of the file system.
absl::Status WriteNewFolder(const std::string& folder, FileSystem* files,
                            const std::function<absl::Status(const std::string& partial)>& fill);

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_NEW_FOLDER_H_
