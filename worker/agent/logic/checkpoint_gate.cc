#include "worker/agent/logic/checkpoint_gate.h"

#include <utility>

namespace strata::worker {

void CheckpointGate::Complete(v1::CommitCheckpoint commit) {
  const int64_t step = commit.step();
  complete_[step] = std::move(commit);
}

std::optional<v1::CommitCheckpoint> CheckpointGate::Next() {
  const auto oldest = complete_.begin();
  if (oldest == complete_.end() || oldest->first > published_) return std::nullopt;
  v1::CommitCheckpoint commit = std::move(oldest->second);
  complete_.erase(oldest);
  return commit;
}

}  // namespace strata::worker
