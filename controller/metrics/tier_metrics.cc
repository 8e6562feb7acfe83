#include "controller/metrics/tier_metrics.h"

#include <cmath>
#include <cstdint>

namespace strata::controller {
namespace {

constexpr size_t kMostSeries = 100;  // of a job and kind: streams, and paths of the SSD tier

prometheus::Family<prometheus::Counter>& CounterFamily(prometheus::Registry& registry,
                                                       const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}
prometheus::Family<prometheus::Gauge>& GaugeFamily(prometheus::Registry& registry, const char* name,
                                                   const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}

// Null: the job has too many.
template <typename Metric>
Metric* Find(prometheus::Family<Metric>& family, const prometheus::Labels& labels,
             TierMetrics::SeriesOf<Metric>& known) {
  const auto found = known.find({&family, labels});
  if (found != known.end()) return found->second;
  if (known.size() >= kMostSeries) return nullptr;
  return known[{&family, labels}] = &family.Add(labels);
}

// Counters must not go back, whatever an agent reports.
void Count(prometheus::Family<prometheus::Counter>& family, const prometheus::Labels& labels,
           double value, TierMetrics::Series& series) {
  prometheus::Counter* const counter = Find(family, labels, series.counters);
  if (counter != nullptr && std::isfinite(value) && value > 0) counter->Increment(value);
}

void Set(prometheus::Family<prometheus::Gauge>& family, const prometheus::Labels& labels,
         double value, TierMetrics::Series& series) {
  prometheus::Gauge* const gauge = Find(family, labels, series.gauges);
  if (gauge != nullptr) gauge->Set(value);
}

double Bytes(int64_t bytes) { return static_cast<double>(bytes); }

}  // namespace

TierMetrics::TierMetrics(prometheus::Registry& registry)
    : transfer_bytes_(CounterFamily(registry, "strata_rank_transfer_bytes_total",
                                    "Bytes moved between tiers by stream (fetch, evict, ssd-read, "
                                    "ssd-write), of rank 0.")),
      transfer_seconds_(CounterFamily(registry, "strata_rank_transfer_seconds_total",
                                      "Seconds of these transfers, begin to end.")),
      stall_seconds_(CounterFamily(registry, "strata_rank_transfer_stall_seconds_total",
                                   "Seconds that the computation of rank 0 waited for them.")),
      ssd_bytes_(CounterFamily(registry, "strata_rank_ssd_bytes_total",
                               "Bytes by path and direction of the SSD tier, of the rank with most "
                               "memory.")),
      ssd_seconds_(CounterFamily(registry, "strata_rank_ssd_busy_seconds_total",
                                 "Seconds with a request in flight: bytes by them are the rate.")),
      ssd_stall_seconds_(CounterFamily(registry, "strata_rank_ssd_stall_seconds_total",
                                       "Seconds that the computation of rank 0 waited for it: "
                                       "those of the streams, by the paths still busy.")),
      ssd_queue_depth_(
          GaugeFamily(registry, "strata_rank_ssd_queue_depth",
                      "Requests in flight in the last step: mean while there were any, and "
                      "most.")),
      ssd_busiest_(GaugeFamily(registry, "strata_rank_ssd_busiest_100ms_bytes",
                               "Bytes in the busiest 100 ms of the last step, by direction.")),
      ssd_write_rate_(GaugeFamily(registry, "strata_rank_ssd_write_rate_bytes_per_second",
                                  "What the last step's writes were spread to; 0: not paced.")),
      ssd_processor_seconds_(CounterFamily(registry, "strata_rank_ssd_processor_seconds_total",
                                           "Processor time of the threads that read and write.")) {}

void TierMetrics::Step(const v1::StepRecord& step, const std::string& job_id, Series& series) {
  for (const v1::Transfer& transfer : step.transfers()) {
    const prometheus::Labels labels = {{"job_id", job_id}, {"stream", transfer.stream()}};
    Count(transfer_bytes_, labels, Bytes(transfer.bytes()), series);
    Count(transfer_seconds_, labels, transfer.seconds(), series);
    Count(stall_seconds_, labels, transfer.stall_seconds(), series);
  }
  for (const v1::TierMemory& tier : step.memory()) {
    if (tier.tier() == "ssd") Ssd(tier, protocol::StallsByPath(step, tier), job_id, series);
  }
}

void TierMetrics::Ssd(const v1::TierMemory& ssd, const std::vector<protocol::PathStall>& stalls,
                      const std::string& job_id, Series& series) {
  const prometheus::Labels job = {{"job_id", job_id}};
  const auto with = [&](prometheus::Labels more) {
    more.insert(job.begin(), job.end());
    return more;
  };
  for (int p = 0; p < ssd.paths_size(); ++p) {
    const v1::PathTraffic& path = ssd.paths(p);
    const auto reads = with({{"path", path.path()}, {"direction", "read"}});
    const auto writes = with({{"path", path.path()}, {"direction", "write"}});
    Count(ssd_bytes_, reads, Bytes(path.read_bytes()), series);
    Count(ssd_bytes_, writes, Bytes(path.written_bytes()), series);
    Count(ssd_seconds_, reads, path.read_seconds(), series);
    Count(ssd_seconds_, writes, path.write_seconds(), series);
    Count(ssd_stall_seconds_, reads, stalls[p].read, series);
    Count(ssd_stall_seconds_, writes, stalls[p].write, series);
    Set(ssd_queue_depth_, with({{"path", path.path()}, {"kind", "mean"}}), path.mean_queue_depth(),
        series);
    Set(ssd_queue_depth_, with({{"path", path.path()}, {"kind", "most"}}),
        static_cast<double>(path.most_queue_depth()), series);
  }
  Set(ssd_busiest_, with({{"direction", "read"}}), Bytes(ssd.busiest_read_bytes()), series);
  Set(ssd_busiest_, with({{"direction", "write"}}), Bytes(ssd.busiest_written_bytes()), series);
  Set(ssd_write_rate_, job, ssd.write_rate(), series);
  Count(ssd_processor_seconds_, job, ssd.processor_seconds(), series);
}

void TierMetrics::Remove(Series& series) {
  for (const auto& [key, counter] : series.counters) key.first->Remove(counter);
  for (const auto& [key, gauge] : series.gauges) key.first->Remove(gauge);
  series = {};
}

}  // namespace strata::controller
