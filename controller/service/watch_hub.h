// WatchJobs: every change in order to everybody who watches, from where each of them left off.
#ifndef STRATA_CONTROLLER_SERVICE_WATCH_HUB_H_
#define STRATA_CONTROLLER_SERVICE_WATCH_HUB_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "controller/service/reactor.h"
#include "controller/service/subscriber.h"
#include "proto/strata/v1/jobs.pb.h"

namespace strata::controller {

// Lives on the reactor's thread.
class WatchHub final : public Reactor::Listener {
 public:
  using Watcher = std::shared_ptr<Subscriber<v1::WatchJobsResponse>>;
  using Sees = std::function<bool(const v1::Job&)>;
  struct Options {
    size_t most_changes = 2048;            // kept to continue from
    size_t most_bytes = size_t{32} << 20;  // of these changes
    size_t most_watchers = 4096;
    double bookmark_seconds = 5;
  };

  WatchHub(const common::Clock* clock, const Options& options) : clock_(clock), options_(options) {}

  // Changes of the job `name` (empty: of all) after `version`, as far as the watcher sees them.
  // Ends the watcher with OUT_OF_RANGE when some of them are no longer known, NOT_FOUND without
  // such a job, RESOURCE_EXHAUSTED when too many watch.
  void Subscribe(const Core& core, const std::string& name, int64_t version, Watcher watcher,
                 Sees sees);

  void OnEffects(const Core& core, const Effects& effects) override;
  void OnTick(const Core& core) override;
  void OnLoad(const Core& core) override;
  void OnStop() override;

 private:
  struct Watch {
    std::string name;
    Watcher watcher;
    Sees sees;
    bool Wants(const v1::Job& job) const;
  };
  bool MissedSome(const Core& core, const std::string& name, int64_t version) const;
  void Keep(std::shared_ptr<const v1::WatchJobsResponse> change);

  const common::Clock* const clock_;
  const Options options_;
  std::vector<Watch> watches_;
  // Changes with a version above floor_, all of them.
  std::deque<std::shared_ptr<const v1::WatchJobsResponse>> changes_;
  size_t bytes_ = 0;
  int64_t floor_ = 0;
  double next_bookmark_ = 0;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_WATCH_HUB_H_
