// Whoever decides for the ranks of a task: a controller, or without one its local stand-in.
#ifndef STRATA_WORKER_AGENT_LOGIC_OVERSEER_H_
#define STRATA_WORKER_AGENT_LOGIC_OVERSEER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "proto/strata/v1/jobs.pb.h"
#include "proto/strata/v1/trainer.pb.h"
#include "worker/agent/logic/trainer_group.h"

namespace strata::worker {

// Told of what this node's ranks do. Errors end the group.
class Overseer {
 public:
  virtual ~Overseer() = default;

  // All ranks here wait for the others' addresses (JobTask::Start). By place.
  virtual absl::Status OnPrepared(TrainerGroup& group,
                                  const std::vector<v1::Prepared>& prepared) = 0;
  // All ranks here work.
  virtual void OnRunning() = 0;
  // A step of all ranks here, an evaluation, a commit, a notice.
  virtual void OnProgress(const v1::JobProgress& progress) = 0;
  // A rank's file of a checkpoint is on disk (JobTask::Commit, once those of all ranks are).
  virtual absl::Status OnWritten(TrainerGroup& group, int rank,
                                 const v1::CheckpointWritten& written) = 0;
  // Rank 0 has written a manifest and waits for the answer.
  virtual absl::Status OnRecord(TrainerGroup& group, const v1::RecordCheckpoint& record) = 0;
  // All ranks here hold still in or after `step` at most (JobTask::StopAfter).
  virtual void OnStopping(TrainerGroup& group, int64_t step) = 0;
  // Of tasks without steps.
  virtual void OnText(const v1::GeneratedText&) {}
  virtual void OnResult(const v1::EvalResult&) {}
  virtual void OnProfile(const v1::Profile&) {}
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOGIC_OVERSEER_H_
