// In which order jobs are looked at, and what projects and queues may still take.
#ifndef STRATA_SCHEDULER_QUEUE_ORDER_H_
#define STRATA_SCHEDULER_QUEUE_ORDER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "scheduler/queue/queue.h"

namespace strata::scheduler {

// The job's own priority plus its queue's.
int64_t EffectivePriority(const Policy& policy, const JobView& job);

struct Candidate {
  const JobView* job = nullptr;
  int64_t priority = 0;  // effective
};
// Jobs that want to start: recovering ones, then queued ones; of each higher effective priority
// first, then order of submission, then name; a preempted one comes after the job that it made room
// for. The order of the view's jobs does not matter.
std::vector<Candidate> InOrder(const View& view);
// The order in which those wait that could not start at once on what is free: by effective
// priority, at equal ones recovering jobs first; else as they were.
std::vector<Candidate> Merge(const std::vector<Candidate>& recovering,
                             const std::vector<Candidate>& queued);

// Devices that jobs hold or keep, by project and kind and by queue: what quotas count.
class Usage {
 public:
  explicit Usage(const View& view);

  // Why the job may not have `devices` of `kind`, in place of what it holds now; nothing: it may.
  std::optional<Blocker> Excess(const JobView& job, absl::string_view kind, int64_t devices) const;
  // From now on the job has `devices` of `kind`, in place of what it held.
  void Set(const JobView& job, const std::string& kind, int64_t devices);

 private:
  struct Holding {
    std::string kind;
    int64_t devices = 0;
  };
  struct Project {
    std::map<std::string, int64_t, std::less<>> by_kind;
    int64_t all = 0;
  };
  void Count(const JobView& job, const Holding& holding, int64_t sign);

  const Policy& policy_;
  std::map<std::string, Project> projects_;
  std::map<std::string, int64_t> queues_;
  std::map<const JobView*, Holding> holdings_;  // only looked up, never walked
};

}  // namespace strata::scheduler

#endif  // STRATA_SCHEDULER_QUEUE_ORDER_H_
