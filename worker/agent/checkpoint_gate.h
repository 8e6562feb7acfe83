// Decides when a checkpoint may be committed: every rank has written its file, and the step records
// up to its step are published, so that a job that goes on from it finds them.
#ifndef STRATA_WORKER_AGENT_CHECKPOINT_GATE_H_
#define STRATA_WORKER_AGENT_CHECKPOINT_GATE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/strata/v1/trainer.pb.h"

namespace strata::worker {

class CheckpointGate {
 public:
  CheckpointGate(int ranks, int64_t start_step) : ranks_(ranks), published_(start_step) {}

  // InvalidArgument: a second file of the same rank and step.
  absl::Status Written(int rank, const v1::CheckpointWritten& written);
  void Published(int64_t step) { published_ = step; }

  // The next checkpoint to commit, each given once; oldest first.
  std::optional<v1::CommitCheckpoint> Next();

 private:
  const int ranks_;
  int64_t published_;
  std::map<int64_t, std::map<int, std::string>> fragments_;  // step, rank
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_CHECKPOINT_GATE_H_
