#include "controller/metrics/scheduler_metrics.h"

#include <cstddef>

namespace strata::controller {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;

const prometheus::Histogram::BucketBoundaries kDecisionSeconds = {
    0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1};
constexpr size_t kMostKinds = 32;

prometheus::Counter& OneCounter(prometheus::Registry& registry, const char* name,
                                const char* help) {
  return BuildCounter().Name(name).Help(help).Register(registry).Add({});
}
prometheus::Gauge& OneGauge(prometheus::Registry& registry, const char* name, const char* help) {
  return BuildGauge().Name(name).Help(help).Register(registry).Add({});
}

}  // namespace

SchedulerMetrics::SchedulerMetrics(prometheus::Registry& registry)
    : seconds_(BuildHistogram()
                   .Name("strata_placement_seconds")
                   .Help("One decision of the scheduler: order, placement and rank maps of all "
                         "jobs that it starts.")
                   .Register(registry)
                   .Add({}, kDecisionSeconds)),
      starts_(OneCounter(registry, "strata_job_starts_total", "Starts of jobs' ranks.")),
      preemptions_(OneCounter(registry, "strata_preemptions_total",
                              "Jobs stopped at a checkpoint for more urgent ones.")),
      replacements_(OneCounter(registry, "strata_rank_replacements_total",
                               "Ranks that were given another device after a failure or a move.")),
      pending_(OneGauge(registry, "strata_pending_jobs", "Jobs in the queue.")),
      drained_(OneGauge(registry, "strata_drained_nodes", "Nodes that operators have drained.")),
      quarantined_(OneGauge(registry, "strata_quarantined_nodes",
                            "Nodes that take no ranks because they were to blame too often.")),
      spares_(OneGauge(registry, "strata_spare_nodes",
                       "Free nodes that running jobs have asked for as spares.")),
      buffer_(
          BuildGauge()
              .Name("strata_buffer_nodes")
              .Help("Nodes of scheduling.buffer: free ones held back from starts, lent ones that "
                    "preemptible jobs use, missing ones that ranks took or that are away.")
              .Register(registry)),
      buffer_free_(buffer_.Add({{"state", "free"}})),
      buffer_lent_(buffer_.Add({{"state", "lent"}})),
      buffer_missing_(buffer_.Add({{"state", "missing"}})),
      free_(BuildGauge()
                .Name("strata_free_devices")
                .Help("Devices that a new rank may take, by kind.")
                .Register(registry)),
      largest_block_(BuildGauge()
                         .Name("strata_largest_free_block_devices")
                         .Help("Most free devices in one domain, by kind: the largest tensor group "
                               "that could be placed. Far below the free ones: fragmentation.")
                         .Register(registry)) {}

void SchedulerMetrics::Decided(const Effects::Decision& decision) {
  seconds_.Observe(decision.seconds);
  starts_.Increment(static_cast<double>(decision.starts));
  preemptions_.Increment(static_cast<double>(decision.preemptions));
  replacements_.Increment(static_cast<double>(decision.replacements));
}

void SchedulerMetrics::Show(const SchedulerFigures& figures) {
  pending_.Set(static_cast<double>(figures.pending_jobs));
  drained_.Set(static_cast<double>(figures.drained_nodes));
  quarantined_.Set(static_cast<double>(figures.quarantined_nodes));
  spares_.Set(static_cast<double>(figures.spare_nodes));
  buffer_free_.Set(static_cast<double>(figures.buffer_free));
  buffer_lent_.Set(static_cast<double>(figures.buffer_lent));
  buffer_missing_.Set(static_cast<double>(figures.buffer_missing));
  for (const auto& [name, shown] : figures.kinds) {
    if (kinds_.count(name) == 0) {
      if (kinds_.size() >= kMostKinds) continue;
      kinds_[name] = {&free_.Add({{"device", name}}), &largest_block_.Add({{"device", name}})};
    }
    kinds_[name].free->Set(static_cast<double>(shown.free));
    kinds_[name].largest_block->Set(static_cast<double>(shown.largest_block));
  }
}

}  // namespace strata::controller
