#include "worker/agent/cluster/job_files.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/status_macros.h"
#include "worker/agent/machine/disk_room.h"
#include "worker/agent/machine/epoch_folder.h"

namespace strata::worker {

// As whom, and beneath which roots, it works there; once.
absl::Status JobFiles::Enter() {
  if (job_folder_.has_value()) return absl::OkStatus();
  ASSIGN_OR_RETURN(as_, DecideUser(mode_, powers_, prepare_.run_as()));
  ASSIGN_OR_RETURN(roots_,
                   common::PathRoots::Open({prepare_.roots().begin(), prepare_.roots().end()}));
  const AsUser as(as_.user);
  ASSIGN_OR_RETURN(job_folder_, JobFolder::Open(roots_, prepare_.directory()));
  return absl::OkStatus();
}

absl::Status JobFiles::LockIn(const JobFolder& folder) {
  absl::StatusOr<DirectoryLock> lock =
      DirectoryLock::AcquireForJob(folder.held_path(), prepare_.owner());
  if (!lock.ok()) return folder.Named(lock.status());
  locks_.push_back(*std::move(lock));
  return absl::OkStatus();
}

absl::Status JobFiles::Lock() {
  RETURN_IF_ERROR(LockIn(*job_folder_));
  const std::string& checkpoints = prepare_.spec().checkpoint().directory();
  if (checkpoints.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const JobFolder folder, JobFolder::Open(roots_, checkpoints));
  std::error_code error;
  if (std::filesystem::equivalent(folder.held_path(), job_folder_->held_path(), error)) {
    return absl::OkStatus();
  }
  return LockIn(folder);
}

absl::Status JobFiles::MakeEpochFolderOfFirst() const {
  if (std::find(prepare_.own().begin(), prepare_.own().end(), 0) == prepare_.own().end()) {
    return absl::OkStatus();
  }
  return job_folder_->Named(
      MakeEpochFolder(job_folder_->held_path(), prepare_.epoch().epoch()).status());
}

absl::Status JobFiles::Open() {
  RETURN_IF_ERROR(Enter());
  const AsUser as(as_.user);
  RETURN_IF_ERROR(Lock());
  RETURN_IF_ERROR(MakeEpochFolderOfFirst());
  free_bytes_ = FreeBytes(prepare_.spec().checkpoint().directory());
  return absl::OkStatus();
}

absl::StatusOr<MetricsFiles> JobFiles::OpenRecords(int64_t start_step, int64_t* published,
                                                   bool* missing) {
  RETURN_IF_ERROR(Enter());
  const AsUser as(as_.user);
  const std::string directory = job_folder_->held_path();
  const absl::StatusOr<std::string> folder = FindEpochFolder(directory, prepare_.epoch().epoch());
  if (!folder.ok()) return job_folder_->Named(folder.status());
  absl::StatusOr<MetricsFiles> files =
      MetricsFiles::Continue(directory, *folder, prepare_.epoch(), start_step, published, missing);
  if (!files.ok()) return job_folder_->Named(files.status());
  return files;
}

std::vector<int> JobFiles::locks() const {
  std::vector<int> descriptors;
  for (const DirectoryLock& lock : locks_) descriptors.push_back(lock.descriptor());
  return descriptors;
}

}  // namespace strata::worker
