// Decides when a checkpoint that all ranks have written (protocol/fragments.h) may be committed:
// the step records up to its step are published, so that a job that goes on from it finds them.
#ifndef STRATA_WORKER_AGENT_LOGIC_CHECKPOINT_GATE_H_
#define STRATA_WORKER_AGENT_LOGIC_CHECKPOINT_GATE_H_

#include <cstdint>
#include <map>
#include <optional>

#include "proto/strata/v1/trainer.pb.h"

namespace strata::worker {

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
