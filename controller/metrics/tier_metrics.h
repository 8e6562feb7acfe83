// The series of what jobs move between tiers of memory.
#ifndef STRATA_CONTROLLER_METRICS_TIER_METRICS_H_
#define STRATA_CONTROLLER_METRICS_TIER_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "proto/strata/v1/standalone.pb.h"
#include "protocol/path_stalls.h"

namespace strata::controller {

// One thread uses it; scrapes may come from others at any time.
class TierMetrics {
 public:
  // One job's, by family and labels; made as there is something to show.
  template <typename Metric>
  using SeriesOf = std::map<std::pair<prometheus::Family<Metric>*, prometheus::Labels>, Metric*>;
  struct Series {
    SeriesOf<prometheus::Counter> counters;
    SeriesOf<prometheus::Gauge> gauges;
  };

  explicit TierMetrics(prometheus::Registry& registry);

  void Step(const v1::StepRecord& step, const std::string& job_id, Series& series);
  void Remove(Series& series);

 private:
  using Counters = prometheus::Family<prometheus::Counter>;
  using Gauges = prometheus::Family<prometheus::Gauge>;

  void Ssd(const v1::TierMemory& ssd, const std::vector<protocol::PathStall>& stalls,
           const std::string& job_id, Series& series);

  Counters& transfer_bytes_;
  Counters& transfer_seconds_;
  Counters& stall_seconds_;
  Counters& ssd_bytes_;
  Counters& ssd_seconds_;
  Counters& ssd_stall_seconds_;
  Gauges& ssd_queue_depth_;
  Gauges& ssd_busiest_;
  Gauges& ssd_write_rate_;
  Counters& ssd_processor_seconds_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_METRICS_TIER_METRICS_H_
