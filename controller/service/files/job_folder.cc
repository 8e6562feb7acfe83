#include "controller/service/files/job_folder.h"

#include "absl/strings/str_cat.h"

namespace strata::controller {

absl::StatusOr<common::PathRoots> JobFolder::OpenRoots() const {
  if (roots.empty()) return common::PathRoots();
  // Others may be closed to the controller's user, and are of no concern.
  std::vector<std::string> around;
  for (const std::string& root : roots) {
    if (common::LiesBeneath(path, root)) around.push_back(root);
  }
  if (around.empty()) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, " lies under none of the roots of the job's project"));
  }
  return common::PathRoots::Open(around);
}

}  // namespace strata::controller
