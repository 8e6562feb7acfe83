// WatchJobs and WatchNodes.
#ifndef STRATA_CONTROLLER_SERVICE_STREAMS_WATCH_HUB_H_
#define STRATA_CONTROLLER_SERVICE_STREAMS_WATCH_HUB_H_

#include <cstdint>
#include <functional>
#include <string>

#include "common/clock.h"
#include "controller/service/reactor/reactor.h"
#include "controller/service/streams/change_hub.h"
#include "proto/strata/v1/cluster.pb.h"
#include "proto/strata/v1/jobs.pb.h"

namespace strata::controller {

// Both live on the reactor's thread.
class WatchHub final : public Reactor::Listener {
 public:
  using Hub = ChangeHub<v1::WatchJobsResponse>;
  using Watcher = Hub::Watcher;
  using Options = Hub::Options;
  using Sees = std::function<bool(const v1::Job&)>;

  WatchHub(const common::Clock* clock, const Options& options) : hub_(clock, options) {}

  // Changes of the job `name` (empty: of all) after `version`, as far as the watcher sees them.
  // Ends the watcher with OUT_OF_RANGE when some of them are no longer known, NOT_FOUND without
  // such a job, RESOURCE_EXHAUSTED when too many watch.
  void Subscribe(const Core& core, const std::string& name, int64_t version, Watcher watcher,
                 Sees sees);

  void OnEffects(const Core& core, const Effects& effects) override;
  void OnTick(const Core& core) override { hub_.Tick(core.resource_version()); }
  // What was pushed was durable; versions go on from there.
  void OnLoad(const Core& core) override { hub_.Forget(core.resource_version()); }
  void OnStop() override;

 private:
  bool MissedSome(const Core& core, const std::string& name, int64_t version) const;

  Hub hub_;
};

class NodeWatchHub final : public Reactor::Listener {
 public:
  using Hub = ChangeHub<v1::WatchNodesResponse>;
  using Watcher = Hub::Watcher;

  explicit NodeWatchHub(const common::Clock* clock) : hub_(clock, {}) {}

  // As WatchHub's; nodes are told without the jobs that they have. After a restart of the
  // controller every node is known in another state: then all begin anew.
  void Subscribe(const Core& core, const std::string& name, int64_t version, Watcher watcher);

  void OnEffects(const Core& core, const Effects& effects) override;
  void OnTick(const Core& core) override { hub_.Tick(core.resource_version()); }
  void OnLoad(const Core& core) override { hub_.Forget(core.resource_version()); }
  void OnStop() override;

 private:
  Hub hub_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_STREAMS_WATCH_HUB_H_
