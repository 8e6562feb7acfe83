#include "checkpoint/new_folder.h"

#include <unistd.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"

namespace strata::checkpoint {
namespace {

absl::Status CheckFree(const std::string& folder, FileSystem* files) {
  if (!files->Exists(folder)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const bool is_folder, files->IsFolder(folder));
  if (!is_folder) return absl::AlreadyExistsError(absl::StrCat(folder, ": is a file"));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files->List(folder));
  if (names.empty()) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat(folder, ": is not empty — name another folder, or remove it"));
}

}  // namespace

absl::Status WriteNewFolder(const std::string& folder, FileSystem* files,
                            const std::function<absl::Status(const std::string& partial)>& fill) {
  RETURN_IF_ERROR(CheckFree(folder, files));
  const size_t slash = folder.rfind('/');
  STRATA_CHECK(slash != std::string::npos);
  if (slash > 0) RETURN_IF_ERROR(CreateFolders(files, folder.substr(0, slash)));
  const std::string partial = absl::StrCat(folder.substr(0, slash), "/.", folder.substr(slash + 1),
                                           ".", getpid(), ".partial");
  RETURN_IF_ERROR(files->CreateFolder(partial));
  absl::Status status = fill(partial);
  if (status.ok()) status = files->PublishFolder(partial, folder);
  // Of a failure, or the empty folder that was there before.
  const absl::Status removed = files->RemoveAll(partial);
  return status.ok() ? removed : status;
}

}  // namespace strata::checkpoint
