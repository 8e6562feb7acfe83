#include "simulation/storage.h"

#include <iterator>

namespace strata::simulation {

std::vector<std::string> Storage::Publish(int64_t step, const std::string& digest, int64_t keep) {
  there_.try_emplace(step, digest);
  std::vector<std::string> gone;
  while (keep > 0 && std::distance(there_.begin(), there_.upper_bound(step)) > keep) {
    gone.push_back(there_.begin()->second);
    there_.erase(there_.begin());
  }
  return gone;
}

std::string Storage::Recover(const v1::Controlled& task) {
  if (task.has_checkpoint()) {
    there_.try_emplace(task.checkpoint().step(), task.checkpoint().manifest_digest());
  }
  for (const v1::RecordedCheckpoint& damaged : task.damaged()) {
    const auto found = there_.find(damaged.step());
    if (found == there_.end() || found->second != damaged.manifest_digest()) continue;
    there_.erase(found);
  }
  return task.has_checkpoint() || there_.empty() ? "" : there_.rbegin()->second;
}

std::optional<v1::CheckpointProblem> Storage::Check(const v1::Controlled& task, bool planning,
                                                    double now) const {
  if (!task.has_checkpoint()) return std::nullopt;
  const v1::RecordedCheckpoint& named = task.checkpoint();
  v1::CheckpointProblem problem;
  problem.set_epoch(named.epoch());
  problem.set_step(named.step());
  problem.set_what(named.manifest_digest());
  for (const auto& [step, digest] : there_) {
    if (step < named.step()) problem.add_older_steps(step);
  }
  const auto found = there_.find(named.step());
  if (found == there_.end() || found->second != named.manifest_digest()) return problem;
  const auto damage = damaged_.find(named.manifest_digest());
  if (damage != damaged_.end() && damage->second != Damage::kBadSector) {
    if (planning != (damage->second == Damage::kSeenWhilePlanning)) return std::nullopt;
    return problem;
  }
  if (planning || (damage == damaged_.end() && now >= fails_until_)) return std::nullopt;
  problem.set_may_pass(true);
  return problem;
}

}  // namespace strata::simulation
