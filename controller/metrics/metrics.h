// What Prometheus can scrape from the controller (GET /metrics), names with the prefix strata_.
//
// Labels have few values: jobs are the only open set, named by job_id; the series of a job go an
// hour after its end, or earlier when they make room for a job that runs; at most kMostJobs have
// any. Nodes and their accelerators are bounded likewise.
#ifndef STRATA_CONTROLLER_METRICS_METRICS_H_
#define STRATA_CONTROLLER_METRICS_METRICS_H_

#include <memory>
#include <string>

#include "common/clock.h"
#include "controller/service/reactor/call_observer.h"
#include "controller/service/reactor/reactor.h"
#include "controller/service/reactor/session_table.h"

namespace strata::controller {

class Metrics : public Reactor::Listener, public CallObserver, public AgentObserver {
 public:
  static constexpr size_t kMostJobs = 500;
  static constexpr double kKeepSeconds = 3600;

  // Borrowed: clock.
  static std::unique_ptr<Metrics> Make(const std::string& version, const common::Clock* clock);

  // The page, as it is now. From any thread.
  virtual std::string Text() const = 0;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_METRICS_METRICS_H_
