// A directory of a job, opened once: what becomes of its path afterwards leads nowhere else.
#ifndef STRATA_WORKER_AGENT_MACHINE_JOB_FOLDER_H_
#define STRATA_WORKER_AGENT_MACHINE_JOB_FOLDER_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/path_roots.h"
#include "worker/agent/machine/descriptor.h"

namespace strata::worker {

class JobFolder {
 public:
  // Makes it where it is missing. InvalidArgument: it cannot be made, or lies outside of the roots.
  static absl::StatusOr<JobFolder> Open(const common::PathRoots& roots, const std::string& path);

  const std::string& path() const { return path_; }  // for people
  // A path of this process alone that means the open folder.
  std::string held_path() const;
  // With the path that people know in the place of the other one.
  absl::Status Named(const absl::Status& status) const;

 private:
  JobFolder(std::string path, Descriptor folder)
      : path_(std::move(path)), folder_(std::move(folder)) {}

  std::string path_;
  Descriptor folder_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_MACHINE_JOB_FOLDER_H_
