#include "controller/metrics/metrics.h"

#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/metrics/device_metrics.h"
#include "controller/metrics/job_metrics.h"
#include "controller/metrics/scheduler_metrics.h"

namespace strata::controller {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;

const prometheus::Histogram::BucketBoundaries kCallSeconds = {0.001, 0.003, 0.01, 0.03, 0.1,
                                                              0.3,   1,     3,    10};
const prometheus::Histogram::BucketBoundaries kLagSeconds = {0.01, 0.03, 0.1, 0.3, 1, 3, 10};
constexpr double kRefreshSeconds = 1;
constexpr size_t kMostNodes = 2000;

class PrometheusMetrics final : public Metrics {
 public:
  PrometheusMetrics(const std::string& version, const common::Clock* clock)
      : clock_(clock),
        registry_(std::make_shared<prometheus::Registry>()),
        jobs_(*registry_, kMostJobs),
        scheduler_(*registry_),
        accelerators_(*registry_),
        nodes_(BuildGauge().Name("strata_nodes").Help("Nodes by state.").Register(*registry_)),
        devices_(BuildGauge()
                     .Name("strata_devices")
                     .Help("Devices by use: free, and all others.")
                     .Register(*registry_)),
        isolated_(BuildGauge()
                      .Name("strata_controller_isolated")
                      .Help("1 while most nodes are silent together: leases are not judged then.")
                      .Register(*registry_)
                      .Add({})),
        heartbeat_time_(BuildGauge()
                            .Name("strata_worker_last_heartbeat_timestamp_seconds")
                            .Help("When the node was last heard from.")
                            .Register(*registry_)),
        heartbeat_lag_(BuildHistogram()
                           .Name("strata_heartbeat_lag_seconds")
                           .Help("By how much heartbeats come later than agreed.")
                           .Register(*registry_)
                           .Add({}, kLagSeconds)),
        plan_ratios_(BuildGauge()
                         .Name("strata_plan_prediction_ratio")
                         .Help("Measured / predicted seconds of a step, by family of plans.")
                         .Register(*registry_)),
        handled_(BuildCounter()
                     .Name("strata_rpc_handled_total")
                     .Help("Calls that have ended, by method and code.")
                     .Register(*registry_)),
        handling_(BuildHistogram()
                      .Name("strata_rpc_handling_seconds")
                      .Help("From a call's arrival to its end; streams end late.")
                      .Register(*registry_)) {
    BuildGauge()
        .Name("strata_build_info")
        .Help("1, with the build in the labels.")
        .Register(*registry_)
        .Add({{"component", "controller"}, {"version", version}})
        .Set(1);
    for (int state = v1::Node::READY; state <= v1::Node::UNKNOWN; ++state) {
      const auto value = static_cast<v1::Node::State>(state);
      nodes_by_state_[value] = &nodes_.Add({{"state", v1::Node::State_Name(value)}});
    }
    free_devices_ = &devices_.Add({{"use", "free"}});
    used_devices_ = &devices_.Add({{"use", "held"}});
  }

  std::string Text() const override {
    ShowFigures();
    return prometheus::TextSerializer().Serialize(registry_->Collect());
  }

  void OnLoad(const Core& core) override {
    heartbeat_seconds_ = core.policy().timing().heartbeat_seconds();
    for (const v1::JobRecord* job : core.Jobs()) jobs_.Learn(*job, clock_->Now());
  }
  void OnEffects(const Core& /*core*/, const Effects& effects) override {
    for (const v1::JobRecord& job : effects.deleted) jobs_.Forget(job.name());
    for (const v1::JobRecord& job : effects.changed) {
      if (!effects.IsDeleted(job)) jobs_.Changed(job, clock_->Now());
    }
    for (const Effects::Progress& progress : effects.progress) jobs_.Progress(progress);
    for (const Effects::Decision& decision : effects.decisions) scheduler_.Decided(decision);
  }
  void OnTick(const Core& core) override;
  void OnAgentMessage(const std::string& node, const v1::AgentMessage& message) override;
  void OnCall(const char* method, const char* code, double seconds) override;

 private:
  void ShowPlanFamilies(const PlanFamilies& families);
  // Of what is scraped, on the thread that asks for it: what takes time in proportion to the
  // cluster is counted there.
  void ShowFigures() const;

  struct Node {
    double heard_at = 0;
    prometheus::Gauge* heard = nullptr;
  };
  struct Calls {
    std::map<std::string, prometheus::Counter*> by_code;
    prometheus::Histogram* seconds = nullptr;
  };

  const common::Clock* const clock_;
  double heartbeat_seconds_ = 0;  // what agents are told
  const std::shared_ptr<prometheus::Registry> registry_;
  JobMetrics jobs_;
  mutable SchedulerMetrics scheduler_;  // guarded by figures_mutex_
  DeviceMetrics accelerators_;
  prometheus::Family<prometheus::Gauge>& nodes_;
  prometheus::Family<prometheus::Gauge>& devices_;
  prometheus::Gauge& isolated_;
  prometheus::Family<prometheus::Gauge>& heartbeat_time_;
  prometheus::Histogram& heartbeat_lag_;
  prometheus::Family<prometheus::Gauge>& plan_ratios_;
  int64_t plan_version_ = 0;  // of what plan_ratios_ shows
  std::vector<prometheus::Gauge*> shown_ratios_;
  prometheus::Family<prometheus::Counter>& handled_;
  prometheus::Family<prometheus::Histogram>& handling_;
  std::map<v1::Node::State, prometheus::Gauge*> nodes_by_state_;
  prometheus::Gauge* free_devices_ = nullptr;
  prometheus::Gauge* used_devices_ = nullptr;
  std::map<std::string, Node> agents_;  // by node
  double next_refresh_ = 0;

  mutable std::mutex snapshot_mutex_;         // guards snapshot_; never held for long
  std::shared_ptr<const Snapshot> snapshot_;  // the newest, or null
  mutable std::mutex figures_mutex_;          // guards shown_, and what it is shown by
  mutable std::shared_ptr<const Snapshot> shown_;

  std::mutex calls_mutex_;  // guards calls_
  std::map<std::string, Calls> calls_;
};

void PrometheusMetrics::OnTick(const Core& core) {
  if (clock_->Now() < next_refresh_) return;
  next_refresh_ = clock_->Now() + kRefreshSeconds;
  jobs_.Tick(clock_->Now(), kKeepSeconds);
  accelerators_.Tick(clock_->Now());
  isolated_.Set(core.cut_off() ? 1 : 0);
  ShowPlanFamilies(core.plan_families());
  heartbeat_seconds_ = core.policy().timing().heartbeat_seconds();
  {
    std::shared_ptr<const Snapshot> taken = core.TakeSnapshot();
    const std::lock_guard lock(snapshot_mutex_);
    snapshot_ = std::move(taken);
  }
  const double now = clock_->Now();
  std::erase_if(agents_, [&](const auto& entry) {
    if (now < entry.second.heard_at + kKeepSeconds) return false;
    heartbeat_time_.Remove(entry.second.heard);
    return true;
  });
}

// They change a few times in a job's life.
void PrometheusMetrics::ShowPlanFamilies(const PlanFamilies& families) {
  if (plan_version_ == families.version()) return;
  plan_version_ = families.version();
  for (prometheus::Gauge* gauge : shown_ratios_) plan_ratios_.Remove(gauge);
  shown_ratios_.clear();
  for (const auto& [name, family] : families.all()) {
    shown_ratios_.push_back(
        &plan_ratios_.Add({{"workload", family.workload()}, {"layout", family.layout()}}));
    shown_ratios_.back()->Set(family.ratio());
  }
}

void PrometheusMetrics::ShowFigures() const {
  std::shared_ptr<const Snapshot> snapshot;
  {
    const std::lock_guard lock(snapshot_mutex_);
    snapshot = snapshot_;
  }
  const std::lock_guard lock(figures_mutex_);
  if (snapshot == shown_) return;
  shown_ = snapshot;
  const SchedulerFigures figures = FiguresOf(*snapshot);
  scheduler_.Show(figures);
  for (const auto& [state, gauge] : nodes_by_state_) {
    const auto count = figures.nodes.find(state);
    gauge->Set(count == figures.nodes.end() ? 0 : static_cast<double>(count->second));
  }
  free_devices_->Set(static_cast<double>(figures.free_devices));
  used_devices_->Set(static_cast<double>(figures.devices - figures.free_devices));
}

void PrometheusMetrics::OnAgentMessage(const std::string& node, const v1::AgentMessage& message) {
  const double now = clock_->Now();
  const std::string label = node.substr(node.find('/') + 1);
  accelerators_.Tell(label, message.heartbeat().device_states(), now);
  accelerators_.Tell(label, message.register_().device_states(), now);
  if (agents_.count(node) == 0) {
    if (agents_.size() >= kMostNodes) return;
    agents_[node] = {now, &heartbeat_time_.Add({{"node", label}})};
  }
  Node& agent = agents_[node];
  agent.heard->Set(common::WallSeconds());
  if (message.has_heartbeat()) {
    heartbeat_lag_.Observe(std::max(0.0, now - agent.heard_at - heartbeat_seconds_));
  }
  if (message.has_heartbeat() || message.has_register_()) agent.heard_at = now;
}

void PrometheusMetrics::OnCall(const char* method, const char* code, double seconds) {
  const std::lock_guard lock(calls_mutex_);
  Calls& calls = calls_[method];
  prometheus::Counter*& counter = calls.by_code[code];
  if (counter == nullptr) counter = &handled_.Add({{"method", method}, {"code", code}});
  counter->Increment();
  if (calls.seconds == nullptr) {
    calls.seconds = &handling_.Add({{"method", method}}, kCallSeconds);
  }
  calls.seconds->Observe(seconds);
}

}  // namespace

std::unique_ptr<Metrics> Metrics::Make(const std::string& version, const common::Clock* clock) {
  return std::make_unique<PrometheusMetrics>(version, clock);
}

}  // namespace strata::controller
