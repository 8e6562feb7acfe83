// What holds of terms and of stops, and when the controller's store is replaced by an earlier copy
// of itself.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "simulation/oracle.h"

namespace strata::simulation {

void Oracle::CheckStops() {
  for (const auto& [name, job] : durable_) {
    std::vector<std::string> told = {job.reason()};
    for (const v1::JobEvent& event : job.events()) told.push_back(event.reason());
    for (const std::string& reason : told) {
      if (!absl::StrContains(reason, "without a last checkpoint: it was not written")) continue;
      Violate(absl::StrCat(name, " is ", reason, ", and nothing was in its way"));
    }
  }
}

void Oracle::OnTerm(int64_t term) {
  if (term <= last_term_) Violate("the controller's term did not grow");
  last_term_ = term;
}

void Oracle::OnBackup() {
  acknowledged_then_ = acknowledged_;
  given_up_then_ = given_up_;
}

// All of its ranks are there, and nobody has asked them to stop.
bool Oracle::GoesOn(const v1::JobRecord& job) const {
  const bool stops = job.cancel_requested() || job.suspended() || job.has_preemption();
  if (job.state() != v1::Job::RUNNING || stops) return false;
  const auto ranks = std::count_if(devices_.begin(), devices_.end(), [&](const auto& device) {
    return device.second == std::make_pair(job.name(), job.epoch());
  });
  return ranks == job.placement_size();
}

void Oracle::OnPutBack(const Records& store, double now) {
  now_ = now;
  const std::map<std::string, v1::JobRecord> lost = std::move(durable_);
  durable_.clear();
  drained_.clear();
  let_go_.clear();
  history_.clear();
  kept_.clear();
  acknowledged_ = acknowledged_then_;
  forgotten_.insert(given_up_.begin(), given_up_.end());
  forgotten_.insert(deleted_.begin(), deleted_.end());
  given_up_ = given_up_then_;
  for (const auto& [key, write] : store) {
    v1::Node node;
    if (write.table == "nodes" && node.ParseFromString(write.value) && node.drained()) {
      drained_.insert(node.name());
    }
    v1::JobRecord job;
    if (write.table != "jobs" || !job.ParseFromString(write.value)) continue;
    durable_[job.name()] = job;
    std::deque<v1::CommittedCheckpoint>& history = history_[job.name()];
    history.assign(job.older_checkpoints().begin(), job.older_checkpoints().end());
    if (job.has_checkpoint()) history.push_back(job.checkpoint());
    const bool wishes = job.cancel_requested() || job.suspended() || job.has_preemption();
    const auto last = lost.find(job.name());
    const bool goes_on = last != lost.end() && last->second.uid() == job.uid() && !wishes &&
                         GoesOn(last->second) && !excused_.contains(job.name());
    if (goes_on) {
      kept_.insert(job.name());
      ++kept_count_;
    } else {
      excused_.insert(job.name());
      ever_excused_.insert(job.name());
    }
  }
  for (const auto& [project, quota] : quotas_) {
    if (Used(project, /*claimed=*/true) > quota) excesses_.insert(project);
  }
}

int64_t Oracle::Used(const std::string& project, bool claimed) const {
  int64_t used = 0;
  for (const auto& [name, job] : durable_) {
    if (job.spec().project() != project) continue;
    const bool counts =
        controller::HasEpoch(job.state()) || (claimed && job.state() == v1::Job::RECOVERING);
    if (counts) used += job.placement_size();
  }
  return used;
}

// Of what runs when a job starts, it included. Of jobs that were found again some may have followed
// others that the backup has, too: what they have they keep.
void Oracle::CheckQuota(const v1::JobRecord& before, const v1::JobRecord& after, bool found) {
  const std::string& project = after.spec().project();
  const auto quota = quotas_.find(project);
  if (quota == quotas_.end()) return;
  const int64_t had = controller::HasEpoch(before.state()) ? before.placement_size() : 0;
  const int64_t used = Used(project, /*claimed=*/false) - had + after.placement_size();
  if (used <= quota->second) return;
  if (found) excesses_.insert(project);
  const bool keeps = before.state() == v1::Job::RECOVERING || found;
  if (keeps && excesses_.contains(project)) return;
  Violate(absl::StrCat("project ", project, " uses ", used, " devices of ", quota->second));
}

void Oracle::ForgetExcess() {
  std::erase_if(excesses_, [&](const std::string& project) {
    return Used(project, /*claimed=*/true) <= quotas_[project];
  });
}

}  // namespace strata::simulation
