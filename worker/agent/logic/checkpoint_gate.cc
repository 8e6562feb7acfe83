#include "worker/agent/logic/checkpoint_gate.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::worker {

absl::StatusOr<std::optional<v1::CommitCheckpoint>> FragmentBook::Written(
    int rank, const v1::CheckpointWritten& written) {
  std::map<int, std::string>& fragments = fragments_[written.step()];
  if (!fragments.emplace(rank, written.fragment()).second) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, " wrote step ", written.step(), " twice"));
  }
  std::optional<v1::CommitCheckpoint> commit;
  if (static_cast<int>(fragments.size()) < ranks_) return commit;
  commit.emplace();
  commit->set_step(written.step());
  for (const auto& [each, fragment] : fragments) commit->add_fragments(fragment);
  fragments_.erase(written.step());
  return commit;
}

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
