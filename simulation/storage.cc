#include "simulation/storage.h"

#include <iterator>

namespace strata::simulation {

std::vector<std::string> Storage::Publish(const v1::RecordedCheckpoint& checkpoint, int64_t keep) {
  const int64_t step = checkpoint.step();
  written_.erase(step);
  there_.try_emplace(step, checkpoint);
  std::vector<std::string> gone;
  while (keep > 0 && std::distance(there_.begin(), there_.upper_bound(step)) > keep) {
    gone.push_back(there_.begin()->second.manifest_digest());
    there_.erase(there_.begin());
  }
  return gone;
}

void Storage::Recover(const v1::Controlled& task) {
  if (task.has_checkpoint()) there_.try_emplace(task.checkpoint().step(), task.checkpoint());
  // Who knows which of them count knows it of all, or asks for all that are whole.
  if (task.adopt_newer_checkpoint()) there_.insert(written_.begin(), written_.end());
  written_.clear();
  for (const v1::RecordedCheckpoint& damaged : task.damaged()) {
    const auto found = there_.find(damaged.step());
    if (found == there_.end() || found->second.manifest_digest() != damaged.manifest_digest()) {
      continue;
    }
    there_.erase(found);
  }
}

std::string Storage::Beside(const v1::Controlled& task) const {
  return task.has_checkpoint() || there_.empty() ? "" : there_.rbegin()->second.manifest_digest();
}

std::optional<v1::RecordedCheckpoint> Storage::FindNewer(const v1::Controlled& task) {
  const auto newest = std::find_if(there_.rbegin(), there_.rend(), [&](const auto& each) {
    const auto damage = damaged_.find(each.second.manifest_digest());
    return damage == damaged_.end() || damage->second != Damage::kSeenWhilePlanning;
  });
  if (newest == there_.rend()) {
    there_.erase(there_.upper_bound(task.checkpoint().step()), there_.end());
    return std::nullopt;
  }
  const v1::RecordedCheckpoint found = newest->second;
  there_.erase(there_.upper_bound(std::max(found.step(), task.checkpoint().step())), there_.end());
  if (found.step() <= task.checkpoint().step()) return std::nullopt;
  return found;
}

int64_t Storage::Newest(double now) const {
  if (now < fails_until_) return 0;
  for (auto each = there_.rbegin(); each != there_.rend(); ++each) {
    if (!damaged_.contains(each->second.manifest_digest())) return each->first;
  }
  return 0;
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
  if (found == there_.end() || found->second.manifest_digest() != named.manifest_digest())
    return problem;
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
