// Makes a checkpoint real, once all ranks have written their files.
//
//   1. DIRECTORY/.epoch-E/step-N/manifest.json   temporary name, sync, rename, sync
//   2. the authority records it: from here on the checkpoint counts
//   3. DIRECTORY/.epoch-E/step-N becomes DIRECTORY/step-N, sync
//   4. the oldest ones beyond `keep` go, renamed first so that half of one is never taken for
//   damage
//
// A crash anywhere leaves the earlier checkpoints as they were; after step 2 Recover() does the
// rest.
#ifndef STRATA_CHECKPOINT_COMMITTER_H_
#define STRATA_CHECKPOINT_COMMITTER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/commit_authority.h"
#include "checkpoint/file_system.h"
#include "checkpoint/manifest.h"
#include "checkpoint/one_slot_worker.h"

namespace strata::checkpoint {

struct CommitRequest {
  CheckpointInfo info;                  // its epoch and step name the folder
  std::vector<FileFragment> fragments;  // of every rank that wrote
  int64_t keep = 0;                     // published checkpoints up to this one to keep; 0: all
};

struct Published {
  std::string folder;    // the published folder
  absl::Status cleanup;  // of deleting the oldest ones: the new one is there whatever this says
};

// One committer per directory at a time. Used by one thread.
class Committer {
 public:
  // `files` and `authority` outlive it.
  Committer(std::string directory, FileSystem* files, CommitAuthority* authority);

  // Creates the directory where it is missing and makes sure that files can be made in it: to be
  // called before the first step. Errors name the directory.
  absl::Status PrepareDirectory();

  // Commits. Repeating a commit, also after a crash inside it, is OK.
  // AlreadyExists: another checkpoint of that step is there; it is left alone.
  absl::StatusOr<Published> Commit(const CommitRequest& request);

  // Finishes what a crash interrupted, and removes what epochs before `current_epoch` left
  // unfinished. To be called before reading. Returns the steps that it published.
  absl::StatusOr<std::vector<int64_t>> Recover(int64_t current_epoch);

  // Moves a damaged checkpoint out of the way, so that its step can be written again. Returns the
  // name it has now, within the directory. Nothing is deleted.
  absl::StatusOr<std::string> SetAside(int64_t step);

  // One more than the greatest epoch of which the directory has a folder or a published manifest; 1
  // where there is none. The number for the next start of a job that has no controller.
  absl::StatusOr<int64_t> NextEpoch();

 private:
  absl::Status Publish(const std::string& from, int64_t step);
  absl::Status DeleteBeyond(int64_t keep, int64_t newest_step);

  const std::string directory_;
  FileSystem* const files_;
  CommitAuthority* const authority_;
};

// Commits in a background thread, one at a time. Owned by one thread; `committer` is used by nobody
// else while busy.
class AsyncCommitter {
 public:
  explicit AsyncCommitter(Committer* committer) : committer_(committer) {}

  // FailedPrecondition while an earlier result has not been taken.
  absl::Status Begin(CommitRequest request);
  bool busy() const { return worker_.busy(); }
  std::optional<absl::StatusOr<Published>> Poll() { return worker_.Poll(); }
  // FailedPrecondition when nothing was begun.
  absl::StatusOr<Published> Wait();

 private:
  Committer* const committer_;
  OneSlotWorker<absl::StatusOr<Published>> worker_;
};

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_COMMITTER_H_
