// What an agent does in a job's directories for one start of its ranks: as the job's user, beneath
// the project's roots.
#ifndef STRATA_WORKER_AGENT_CLUSTER_JOB_FILES_H_
#define STRATA_WORKER_AGENT_CLUSTER_JOB_FILES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/path_roots.h"
#include "proto/strata/v1/agent.pb.h"
#include "worker/agent/machine/directory_lock.h"
#include "worker/agent/machine/job_folder.h"
#include "worker/agent/machine/job_user.h"
#include "worker/agent/trainers/metrics_files.h"

namespace strata::worker {

// Each method that returns a status may take as long as the job's file systems like (FileWork), and
// so may Unlock and the destruction. Used by one thread at a time.
class JobFiles {
 public:
  JobFiles(v1::PrepareEpoch prepare, RunAs mode, const Powers& powers)
      : prepare_(std::move(prepare)), mode_(mode), powers_(powers) {}

  // Its directories, made where they are missing, are this job's from now on, and the folder of the
  // epoch is there if rank 0 is here.
  absl::Status Open();
  void Unlock() { locks_.clear(); }
  // As MetricsFiles::Continue. Also without Open, of an epoch that an earlier agent opened.
  absl::StatusOr<MetricsFiles> OpenRecords(int64_t start_step, int64_t* published, bool* missing);

  const Decision& as() const { return as_; }                         // once opened
  std::vector<int> locks() const;                                    // descriptors, for trainers
  std::optional<int64_t> free_bytes() const { return free_bytes_; }  // for checkpoints, when opened

 private:
  absl::Status Enter();
  absl::Status LockIn(const JobFolder& folder);
  absl::Status Lock();
  absl::Status MakeEpochFolderOfFirst() const;

  const v1::PrepareEpoch prepare_;
  const RunAs mode_;
  const Powers powers_;
  Decision as_;
  common::PathRoots roots_;
  std::optional<JobFolder> job_folder_;
  std::vector<DirectoryLock> locks_;
  std::optional<int64_t> free_bytes_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_CLUSTER_JOB_FILES_H_
