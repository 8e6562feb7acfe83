// Commits of a job under a controller: the agent is asked, which asks the controller.
#ifndef STRATA_WORKER_TRAINER_AGENT_COMMIT_AUTHORITY_H_
#define STRATA_WORKER_TRAINER_AGENT_COMMIT_AUTHORITY_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "checkpoint/commit_authority.h"
#include "proto/strata/v1/trainer.pb.h"
#include "worker/trainer/control.h"

namespace strata::worker {

// Record is called by one thread, the rest by any.
class AgentCommitAuthority final : public checkpoint::CommitAuthority {
 public:
  // `control` is borrowed.
  explicit AgentCommitAuthority(Control* control) : control_(control) {}

  // Blocks until the controller has answered, however long it is away. Aborted: it refuses;
  // Cancelled: Cancel was called.
  absl::Status Record(int64_t epoch, int64_t step, const std::string& manifest_digest,
                      const std::string& path) override;
  // FailedPrecondition: what is recorded is known before ranks start (RecordedAuthority).
  absl::StatusOr<bool> IsRecorded(int64_t epoch, int64_t step, const std::string& path) override;

  // The control thread's.
  void Answer(const v1::CheckpointAnswer& answer);
  void Cancel();

 private:
  Control* const control_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t asked_ = -1;  // step
  std::optional<v1::CheckpointAnswer> answer_;
  bool cancelled_ = false;
};

// Before ranks start: the one checkpoint that the controller names is real, and no other.
class RecordedAuthority final : public checkpoint::CommitAuthority {
 public:
  explicit RecordedAuthority(const v1::Controlled& controlled) : controlled_(controlled) {}

  absl::Status Record(int64_t, int64_t, const std::string&, const std::string&) override;
  absl::StatusOr<bool> IsRecorded(int64_t epoch, int64_t step, const std::string&) override {
    return controlled_.has_checkpoint() && controlled_.checkpoint().epoch() == epoch &&
           controlled_.checkpoint().step() == step;
  }

 private:
  const v1::Controlled controlled_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_AGENT_COMMIT_AUTHORITY_H_
