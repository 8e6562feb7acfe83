// Which epochs an agent takes: of each job none that comes after a higher one. A job is its uid; a
// name may come again, for another job that counts from 1.
#ifndef STRATA_WORKER_AGENT_LOGIC_EPOCH_FENCE_H_
#define STRATA_WORKER_AGENT_LOGIC_EPOCH_FENCE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "proto/strata/v1/agent.pb.h"

namespace strata::worker {

// Whether both are the same start of the same job. One without a uid, of an older controller or
// agent, is told by its name.
bool SameEpoch(const v1::JobEpoch& a, const v1::JobEpoch& b);

// Used by one thread.
class EpochFence {
 public:
  static constexpr size_t kMostJobs = 10'000;  // whose epochs are remembered

  void Remember(const v1::JobEpoch& epoch);
  // FailedPrecondition: a higher one, or this one, was here.
  absl::Status Check(const v1::JobEpoch& epoch) const;
  // The controller's state was restored: it counts again from where it was.
  void Forget() { highest_.clear(); }

 private:
  static const std::string& KeyOf(const v1::JobEpoch& epoch) {
    return epoch.uid().empty() ? epoch.job() : epoch.uid();
  }
  std::map<std::string, int64_t> highest_;
};

// FailedPrecondition: it must wait or come anew; InvalidArgument: it can never be right. `devices`:
// of this node.
absl::Status CheckPrepare(const v1::PrepareEpoch& prepare, int devices, const EpochFence& fence);

// "bible" of "jobs/bible"; empty when it is no name of a job, which then must not become a path.
std::string ShortJobName(const std::string& job);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOGIC_EPOCH_FENCE_H_
