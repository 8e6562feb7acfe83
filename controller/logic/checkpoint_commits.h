// Which checkpoints count. Trainers write files, rank 0's agent makes the manifest, and the job's
// record alone says that a checkpoint is real.
#ifndef STRATA_CONTROLLER_LOGIC_CHECKPOINT_COMMITS_H_
#define STRATA_CONTROLLER_LOGIC_CHECKPOINT_COMMITS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/strata/v1/agent.pb.h"
#include "proto/strata/v1/records.pb.h"
#include "proto/strata/v1/trainer.pb.h"

namespace strata::controller {

// What the ranks of one epoch have written and nobody has committed yet. Bounded: the newest steps.
class FragmentBook {
 public:
  static constexpr size_t kMostSteps = 4;
  // Rank 0 writes no further checkpoint while so many are not committed (worker/trainer).
  static constexpr int kMostUncommitted = 2;

  // Adds what one node wrote of a checkpoint; fragments of ranks beyond `ranks` are left out.
  // Returns the manifest's request when all are there, also when this is a repetition.
  std::optional<v1::WriteManifest> Add(const v1::CheckpointFragments& written, int ranks);
  // Whether all of these ranks' fragments of the step are there.
  bool Has(int64_t step, const std::vector<int>& ranks) const;
  // Whether all of these ranks' fragments are there of each step that any rank has written.
  bool HasAllOf(const std::vector<int>& ranks) const;
  // Of how many steps after `step` some rank has written its part.
  int CountAfter(int64_t step) const;
  // The newest complete one.
  std::optional<v1::WriteManifest> Complete(const v1::JobEpoch& epoch, int ranks) const;
  // Steps up to this one are done with.
  void Forget(int64_t step);

 private:
  std::map<int64_t, std::map<int, std::string>> by_step_;
};

enum class CommitVerdict {
  kRecord,    // it is to be recorded
  kRecorded,  // it is already: say so again
  kRefused,   // with a reason
};
struct CommitJudgement {
  CommitVerdict verdict = CommitVerdict::kRefused;
  std::string reason;
};

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
