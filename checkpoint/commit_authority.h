// Who decides that a checkpoint is real.
#ifndef STRATA_CHECKPOINT_COMMIT_AUTHORITY_H_
#define STRATA_CHECKPOINT_COMMIT_AUTHORITY_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace strata::checkpoint {

class CommitAuthority {
 public:
  virtual ~CommitAuthority() = default;

  // Records durably that the checkpoint of `step`, complete in folder `path` with a manifest of
  // that digest, is real. Repeating a record is OK. Aborted: `epoch` is not the current one.
  virtual absl::Status Record(int64_t epoch, int64_t step, const std::string& manifest_digest,
                              const std::string& path) = 0;
  // Whether the checkpoint in folder `path`, which holds a manifest, was recorded.
  virtual absl::StatusOr<bool> IsRecorded(int64_t epoch, int64_t step, const std::string& path) = 0;
};

// For a job without a controller: a manifest in its place is the record, because it is written last
// and atomically.
class LocalCommitAuthority final : public CommitAuthority {
 public:
  absl::Status Record(int64_t, int64_t, const std::string&, const std::string&) override {
    return absl::OkStatus();
  }
  absl::StatusOr<bool> IsRecorded(int64_t, int64_t, const std::string&) override { return true; }
};

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_COMMIT_AUTHORITY_H_
