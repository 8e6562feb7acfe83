// StreamProgress: what happens in jobs, live, and the little that is needed to join without a gap.
#ifndef STRATA_CONTROLLER_SERVICE_STREAMS_PROGRESS_HUB_H_
#define STRATA_CONTROLLER_SERVICE_STREAMS_PROGRESS_HUB_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "controller/service/reactor/reactor.h"
#include "controller/service/streams/subscriber.h"
#include "proto/strata/v1/jobs.pb.h"

namespace strata::controller {

// The last step record that a follower has: records of older epochs, and of this one up to `step`,
// are nothing new to it.
struct ProgressPosition {
  int64_t epoch = 0;  // 0: not known
  int64_t step = 0;
  bool Covers(const v1::JobProgress& progress) const;
};

// Lives on the reactor's thread.
class ProgressHub final : public Reactor::Listener {
 public:
  using Follower = std::shared_ptr<Subscriber<v1::JobProgress>>;
  struct Options {
    size_t most_recent = 512;      // records kept per job
    double keep_seconds = 60;      // after its end
    size_t most_followers = 4096;  // of all jobs
  };

  ProgressHub(const common::Clock* clock, const Options& options)
      : clock_(clock), options_(options) {}

  // The job as it is, what is recent and not covered by `position`, then what comes; ends after the
  // job's terminal state. NOT_FOUND without such a job; RESOURCE_EXHAUSTED: too many follow.
  void Subscribe(const Core& core, const std::string& job, const ProgressPosition& position,
                 Follower follower);

  void OnEffects(const Core& core, const Effects& effects) override;
  void OnTick(const Core& core) override;
  void OnStop() override;

 private:
  using Message = std::shared_ptr<const v1::JobProgress>;
  struct Followed {
    std::deque<Message> recent;  // not the job's states
    std::vector<Follower> followers;
    double ended_at = -1;  // not yet
  };
  void Publish(Followed& followed, const Message& message);

  const common::Clock* const clock_;
  const Options options_;
  std::map<std::string, Followed> jobs_;
  size_t followers_ = 0;  // counted at each tick
};

// SUCCEEDED, FAILED or CANCELLED.
bool IsTerminal(v1::Job::State state);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_STREAMS_PROGRESS_HUB_H_
