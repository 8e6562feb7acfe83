// The series of the scheduler.
#ifndef STRATA_CONTROLLER_METRICS_SCHEDULER_METRICS_H_
#define STRATA_CONTROLLER_METRICS_SCHEDULER_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>
#include <string>

#include "controller/logic/effects.h"
#include "controller/logic/scheduler_figures.h"

namespace strata::controller {

// One thread tells it of decisions, another one at a time shows figures; scrapes may come from
// others at any time.
class SchedulerMetrics {
 public:
  explicit SchedulerMetrics(prometheus::Registry& registry);

  void Decided(const Effects::Decision& decision);
  void Show(const SchedulerFigures& figures);

 private:
  struct Kind {
    prometheus::Gauge* free = nullptr;
    prometheus::Gauge* largest_block = nullptr;
  };

  prometheus::Histogram& seconds_;
  prometheus::Counter& starts_;
  prometheus::Counter& preemptions_;
  prometheus::Counter& replacements_;
  prometheus::Gauge& pending_;
  prometheus::Gauge& drained_;
  prometheus::Gauge& quarantined_;
  prometheus::Gauge& spares_;
  prometheus::Family<prometheus::Gauge>& buffer_;
  prometheus::Gauge& buffer_free_;
  prometheus::Gauge& buffer_lent_;
  prometheus::Gauge& buffer_missing_;
  prometheus::Family<prometheus::Gauge>& free_;
  prometheus::Family<prometheus::Gauge>& largest_block_;
  std::map<std::string, Kind> kinds_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_METRICS_SCHEDULER_METRICS_H_
