// The series of jobs.
#ifndef STRATA_CONTROLLER_METRICS_JOB_METRICS_H_
#define STRATA_CONTROLLER_METRICS_JOB_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/logic/effects.h"
#include "controller/metrics/tier_metrics.h"

namespace strata::controller {

// One thread uses it; scrapes may come from others at any time.
class JobMetrics {
 public:
  // At most `most_jobs` have series of their own; one that ended makes room for one that runs.
  JobMetrics(prometheus::Registry& registry, size_t most_jobs);

  // A job as it was found when the controller started: nothing that happened before is counted.
  void Learn(const v1::JobRecord& job, double now);
  void Changed(const v1::JobRecord& job, double now);
  void Forget(const std::string& job);
  void Progress(const Effects::Progress& progress);
  // Drops the series of jobs that ended more than `keep_seconds` ago, and shows jobs by state.
  void Tick(double now, double keep_seconds);

 private:
  using Counters = prometheus::Family<prometheus::Counter>;
  using Gauges = prometheus::Family<prometheus::Gauge>;
  using Histograms = prometheus::Family<prometheus::Histogram>;

  // Series are looked up once; `removers` take all of them away again.
  struct Series {
    prometheus::Counter* steps;
    prometheus::Counter* tokens;
    prometheus::Counter* flops;
    prometheus::Counter* communication_seconds;
    prometheus::Counter* evaluation_seconds;
    prometheus::Counter* checkpoint_seconds;
    prometheus::Counter* other_seconds;  // of steps, in no phase
    prometheus::Counter* checkpoints;
    prometheus::Counter* checkpoint_bytes;
    prometheus::Counter* lost_steps;
    prometheus::Histogram* duration;
    std::map<const Gauges*, prometheus::Gauge*> gauges;      // once there is something to show
    std::map<std::string, prometheus::Counter*> phases;      // of steps
    std::map<std::string, prometheus::Counter*> exposed;     // likewise, waited for
    std::map<std::string, prometheus::Counter*> background;  // likewise, beside the computation
    std::map<std::string, prometheus::Counter*> restarts;    // by cause
    std::map<std::string, prometheus::Gauge*> memory;        // by tier/kind
    TierMetrics::Series tiers;
    std::vector<std::function<void()>> removers;
  };
  struct Known {
    v1::Job::State state = v1::Job::STATE_UNSPECIFIED;
    int64_t counted_epoch = 0;  // up to it the restarts are counted
    int64_t parameters = 0;
    double ended_at = -1;
    bool waits = false;  // for the first time
    double create_time = 0;
    std::unique_ptr<Series> series;
  };

  Series* SeriesOf(const std::string& job);
  void Drop(Known& known);
  void ObserveWait(const v1::JobRecord& job, const Known& known);
  void SetEnded(const std::string& job, Known& known, double at);  // below 0: it has not
  std::unique_ptr<Series> MakeSeries(const std::string& job);
  void CountRestarts(const v1::JobRecord& job, Known& known, Series* series);
  prometheus::Counter* RestartsBy(const std::string& cause, const std::string& job, Series& series);
  void Show(Gauges& family, double value, const std::string& job, Series& series);
  void Step(const v1::StepRecord& step, int64_t parameters, const std::string& job, Series& series);
  void Phases(const v1::StepRecord& step, const std::string& job, Series& series);
  void Memory(const v1::StepRecord& step, const std::string& job, Series& series);

  const size_t most_jobs_;
  size_t with_series_ = 0;
  std::map<std::string, Known> jobs_;
  std::set<std::pair<double, std::string>> ended_;  // by time
  std::map<v1::Job::State, prometheus::Gauge*> by_state_;

  Gauges& jobs_by_state_;
  Histograms& queue_wait_;
  std::map<std::string, prometheus::Histogram*> waits_;  // by queue
  Counters& steps_;
  Counters& tokens_;
  Counters& flops_;
  Counters& phase_seconds_;
  Counters& exposed_seconds_;
  Counters& background_seconds_;
  Counters& communication_seconds_;
  Counters& checkpoints_;
  Counters& checkpoint_bytes_;
  Counters& restarts_;
  Counters& lost_steps_;
  Gauges& loss_;
  Gauges& validation_loss_;
  Gauges& grad_norm_;
  Gauges& learning_rate_;
  Gauges& last_step_time_;
  Gauges& last_checkpoint_time_;
  Gauges& target_steps_;
  Gauges& predicted_step_;
  Gauges& memory_;
  TierMetrics tiers_;
  Histograms& duration_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_METRICS_JOB_METRICS_H_
