// Decides when a checkpoint may be committed: every rank has written its file, and the step records
// up to its step are published, so that a job that goes on from it finds them.
#ifndef STRATA_WORKER_AGENT_LOGIC_CHECKPOINT_GATE_H_
#define STRATA_WORKER_AGENT_LOGIC_CHECKPOINT_GATE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "proto/strata/v1/trainer.pb.h"

namespace strata::worker {

// Gathers what the ranks' writers say of their files.
class FragmentBook {
 public:
  explicit FragmentBook(int ranks) : ranks_(ranks) {}

  // Gives the checkpoint once all ranks have written it. InvalidArgument: a second file of the same
  // rank and step.
  absl::StatusOr<std::optional<v1::CommitCheckpoint>> Written(int rank,
                                                              const v1::CheckpointWritten& written);

 private:
  const int ranks_;
  std::map<int64_t, std::map<int, std::string>> fragments_;  // step, rank
};

class CheckpointGate {
 public:
  explicit CheckpointGate(int64_t start_step) : published_(start_step) {}

  // The files of all ranks are there. Steps come in any order, and again: a controller that is back
  // begins with the newest.
  void Complete(v1::CommitCheckpoint commit);
  void Published(int64_t step) { published_ = step; }

  // The next checkpoint to commit, oldest first; rank 0 takes no notice of one that it has.
  std::optional<v1::CommitCheckpoint> Next();

 private:
  int64_t published_;
  std::map<int64_t, v1::CommitCheckpoint> complete_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOGIC_CHECKPOINT_GATE_H_
