// Which checkpoints count. Trainers write files, rank 0's agent makes the manifest, and the job's
// record alone says that a checkpoint is real.
#ifndef STRATA_CONTROLLER_LOGIC_CHECKPOINT_COMMITS_H_
#define STRATA_CONTROLLER_LOGIC_CHECKPOINT_COMMITS_H_

#include <string>

#include "proto/strata/v1/agent.pb.h"
#include "proto/strata/v1/records.pb.h"
#include "proto/strata/v1/trainer.pb.h"
#include "protocol/fragments.h"

namespace strata::controller {

enum class CommitVerdict {
  kRecord,    // it is to be recorded
  kRecorded,  // it is already: say so again
  kRefused,   // with a reason
};
struct CommitJudgement {
  CommitVerdict verdict = CommitVerdict::kRefused;
  std::string reason;
};

// What rank 0's agent is asked for once all ranks have written.
v1::WriteManifest ManifestOf(const v1::JobEpoch& epoch, protocol::WholeCheckpoint checkpoint);

// Pure. `job` as recorded.
CommitJudgement JudgeCommit(const v1::JobRecord& job, const v1::CommitRequest& request);

// The job's newest checkpoint from now on. The last ones before it are kept in mind, so that the
// job can go back to them; what was damaged has been set aside before anything could be committed.
void RecordCheckpoint(const v1::CommittedCheckpoint& checkpoint, v1::JobRecord& job);

// The newest checkpoint is known to be damaged: the newest one before it that is still there takes
// its place, if there is any.
void DiscardCheckpoint(const v1::CheckpointProblem& problem, v1::JobRecord& job);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_CHECKPOINT_COMMITS_H_
