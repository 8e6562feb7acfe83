// Where the controller finds the files of one job, and beneath which roots it opens them.
#ifndef STRATA_CONTROLLER_SERVICE_FILES_JOB_FOLDER_H_
#define STRATA_CONTROLLER_SERVICE_FILES_JOB_FOLDER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/path_roots.h"

namespace strata::controller {

struct JobFolder {
  std::string path;
  std::string job_uid;             // of what in it is this job's
  std::vector<std::string> roots;  // of the job's project; none: the folder may lie anywhere

  // Those of its roots beneath which it lies. PermissionDenied: there is none, so nothing in it is
  // to be opened; also as PathRoots::Open. Waits for the file system.
  absl::StatusOr<common::PathRoots> OpenRoots() const;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_FILES_JOB_FOLDER_H_
