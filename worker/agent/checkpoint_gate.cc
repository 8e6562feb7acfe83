#include "worker/agent/checkpoint_gate.h"

#include "absl/strings/str_cat.h"

namespace strata::worker {

absl::Status CheckpointGate::Written(int rank, const v1::CheckpointWritten& written) {
  if (!fragments_[written.step()].emplace(rank, written.fragment()).second) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, " wrote step ", written.step(), " twice"));
  }
  return absl::OkStatus();
}

std::optional<v1::CommitCheckpoint> CheckpointGate::Next() {
  if (fragments_.empty()) return std::nullopt;
  const auto oldest = fragments_.begin();
  if (oldest->first > published_ || static_cast<int>(oldest->second.size()) < ranks_) {
    return std::nullopt;
  }
  v1::CommitCheckpoint commit;
  commit.set_step(oldest->first);
  for (const auto& [rank, fragment] : oldest->second) commit.add_fragments(fragment);
  fragments_.erase(oldest);
  return commit;
}

}  // namespace strata::worker
