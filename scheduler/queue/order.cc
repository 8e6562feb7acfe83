#include "scheduler/queue/order.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace strata::scheduler {

int64_t EffectivePriority(const Policy& policy, const JobView& job) {
  const auto queue = policy.queues.find(job.queue);
  return job.priority + (queue == policy.queues.end() ? 0 : queue->second.priority);
}

namespace {

using Rank = std::tuple<bool, int64_t, int64_t, absl::string_view>;

Rank RankOf(const Candidate& c) {
  return {c.job->phase == JobPhase::kQueued, -c.priority, c.job->order, c.job->name};
}

// How many preempted ones may stand one behind the other.
constexpr int kMostBehind = 8;

}  // namespace

std::vector<Candidate> InOrder(const View& view) {
  std::vector<Candidate> waiting;
  std::map<absl::string_view, Candidate> by_name;  // filled when somebody made room for another
  bool any_preempted = false;
  for (const JobView& job : view.jobs) {
    if (job.phase != JobPhase::kQueued && job.phase != JobPhase::kRecovering) continue;
    waiting.push_back({&job, EffectivePriority(view.policy, job)});
    any_preempted = any_preempted || !job.preempted_by.empty();
  }
  if (any_preempted) {
    for (const Candidate& c : waiting) by_name.emplace(c.job->name, c);
  }
  struct Place {
    Rank rank;  // its own, or of the job behind which it stands
    int behind = 0;
    Rank own;
    Candidate candidate;
  };
  std::vector<Place> places;
  places.reserve(waiting.size());
  for (const Candidate& c : waiting) {
    Place place{RankOf(c), 0, RankOf(c), c};
    for (const JobView* at = c.job; !at->preempted_by.empty() && place.behind < kMostBehind;) {
      const auto by = by_name.find(at->preempted_by);
      if (by == by_name.end() || by->second.job->phase != c.job->phase) break;
      const Rank rank = RankOf(by->second);
      if (rank <= place.rank) break;  // it comes first anyway
      place.rank = rank;
      ++place.behind;
      at = by->second.job;
    }
    places.push_back(place);
  }
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return std::tie(a.rank, a.behind, a.own) < std::tie(b.rank, b.behind, b.own);
  });
  for (size_t i = 0; i < places.size(); ++i) waiting[i] = places[i].candidate;
  return waiting;
}

std::vector<Candidate> Merge(const std::vector<Candidate>& recovering,
                             const std::vector<Candidate>& queued) {
  std::vector<Candidate> merged;
  auto next = recovering.begin();
  for (const Candidate& candidate : queued) {
    while (next != recovering.end() && next->priority >= candidate.priority) {
      merged.push_back(*next++);
    }
    merged.push_back(candidate);
  }
  merged.insert(merged.end(), next, recovering.end());
  return merged;
}

Usage::Usage(const View& view) : policy_(view.policy) {
  for (const JobView& job : view.jobs) {
    if (job.phase != JobPhase::kQueued && job.held.has_value()) {
      Set(job, job.held->kind, static_cast<int64_t>(job.held->ranks.size()));
    }
  }
}

void Usage::Count(const JobView& job, const Holding& holding, int64_t sign) {
  Project& project = projects_[job.project];
  project.by_kind[holding.kind] += sign * holding.devices;
  project.all += sign * holding.devices;
  queues_[job.queue] += sign * holding.devices;
}

void Usage::Set(const JobView& job, const std::string& kind, int64_t devices) {
  Holding& holding = holdings_[&job];
  Count(job, holding, -1);
  holding = {kind, devices};
  Count(job, holding, 1);
}

std::optional<Blocker> Usage::Excess(const JobView& job, absl::string_view kind,
                                     int64_t devices) const {
  const auto own = holdings_.find(&job);
  const int64_t had = own == holdings_.end() ? 0 : own->second.devices;
  const int64_t had_of_kind = had > 0 && own->second.kind == kind ? had : 0;
  const auto over = [&](int64_t used, int64_t own_part, int64_t limit) {
    // What it has it may keep, also when the limit was lowered since.
    return devices > own_part && used - own_part + devices > limit;
  };
  const auto text = [&](absl::string_view of, int64_t used, int64_t limit, absl::string_view what) {
    if (devices > limit) {
      return absl::StrCat("needs ", devices, " ", what, ", and ", of, " has ", limit, " at most");
    }
    return absl::StrCat("over quota of ", of, ": ", used, " of ", limit, " ", what, " used, needs ",
                        devices);
  };
  if (const auto policy = policy_.projects.find(job.project); policy != policy_.projects.end()) {
    const auto used = projects_.find(job.project);
    for (const auto& [of_kind, limit] : policy->second.device_quota) {
      if (of_kind != kind && of_kind != "*") continue;
      const bool all = of_kind == "*";
      int64_t count = 0;
      if (used != projects_.end()) {
        const auto by_kind = used->second.by_kind.find(kind);
        const bool some = by_kind != used->second.by_kind.end();
        count = all ? used->second.all : some ? by_kind->second : 0;
      }
      if (over(count, all ? had : had_of_kind, limit)) {
        return Blocker{Blocker::Code::kQuota, job.project,
                       text(absl::StrCat("project ", job.project), count, limit,
                            all ? "devices" : absl::StrCat(kind, " devices")),
                       devices > limit};
      }
    }
  }
  if (const auto policy = policy_.queues.find(job.queue);
      policy != policy_.queues.end() && policy->second.max_devices > 0) {
    const auto used = queues_.find(job.queue);
    const int64_t count = used == queues_.end() ? 0 : used->second;
    if (over(count, had, policy->second.max_devices)) {
      return Blocker{
          Blocker::Code::kQueueLimit, job.queue,
          text(absl::StrCat("queue ", job.queue), count, policy->second.max_devices, "devices"),
          devices > policy->second.max_devices};
    }
  }
  return std::nullopt;
}

}  // namespace strata::scheduler
