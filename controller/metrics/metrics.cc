#include "controller/metrics/metrics.h"

#include <netinet/in.h>
#include <prometheus/exposer.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
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
constexpr auto kKnockEvery = std::chrono::milliseconds(10);
constexpr size_t kMostNodes = 2000;

class PrometheusMetrics final : public Metrics {
 public:
  PrometheusMetrics(const std::string& version, const common::Clock* clock)
      : clock_(clock),
        registry_(std::make_shared<prometheus::Registry>()),
        jobs_(*registry_, kMostJobs),
        scheduler_(*registry_),
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

  ~PrometheusMetrics() override { StopServing(); }

  absl::StatusOr<std::string> Serve(const std::string& address) override;
  std::string Text() const override {
    return prometheus::TextSerializer().Serialize(page_->Collect());
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
  // What scrapes get, on the threads that ask for it: what takes time in proportion to the cluster
  // is counted there.
  struct Page final : prometheus::Collectable {
    explicit Page(PrometheusMetrics* of) : metrics(of) {}
    std::vector<prometheus::MetricFamily> Collect() const override {
      metrics->ShowFigures();
      return metrics->registry_->Collect();
    }
    PrometheusMetrics* const metrics;
  };

  void StopServing();
  void ShowFigures();

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
  SchedulerMetrics scheduler_;
  prometheus::Family<prometheus::Gauge>& nodes_;
  prometheus::Family<prometheus::Gauge>& devices_;
  prometheus::Gauge& isolated_;
  prometheus::Family<prometheus::Gauge>& heartbeat_time_;
  prometheus::Histogram& heartbeat_lag_;
  prometheus::Family<prometheus::Counter>& handled_;
  prometheus::Family<prometheus::Histogram>& handling_;
  std::map<v1::Node::State, prometheus::Gauge*> nodes_by_state_;
  prometheus::Gauge* free_devices_ = nullptr;
  prometheus::Gauge* used_devices_ = nullptr;
  std::map<std::string, Node> agents_;  // by node
  double next_refresh_ = 0;

  const std::shared_ptr<Page> page_ = std::make_shared<Page>(this);
  std::mutex snapshot_mutex_;                 // guards snapshot_; never held for long
  std::shared_ptr<const Snapshot> snapshot_;  // the newest, or null
  std::mutex figures_mutex_;                  // guards shown_, and what it is shown by
  std::shared_ptr<const Snapshot> shown_;

  std::mutex calls_mutex_;  // guards calls_
  std::map<std::string, Calls> calls_;

  std::unique_ptr<prometheus::Exposer> exposer_;
  int port_ = 0;
};

// Makes a connection to the port on this machine and drops it.
void Knock(int port) {
  for (const int family : {AF_INET, AF_INET6}) {
    const int file = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (file < 0) continue;
    sockaddr_in v4 = {};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(static_cast<uint16_t>(port));
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in6 v6 = {};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = v4.sin_port;
    v6.sin6_addr = in6addr_loopback;
    const bool is_v4 = family == AF_INET;
    const auto* address =
        is_v4 ? reinterpret_cast<sockaddr*>(&v4) : reinterpret_cast<sockaddr*>(&v6);
    // Whether anybody listens there does not matter.
    static_cast<void>(connect(file, address, is_v4 ? sizeof(v4) : sizeof(v6)));
    close(file);
  }
}

absl::StatusOr<std::string> PrometheusMetrics::Serve(const std::string& address) {
  // The library reports by exceptions.
  try {
    // A request that does not come to its end holds a thread until its time is over, no longer.
    exposer_ = std::make_unique<prometheus::Exposer>(
        std::vector<std::string>{"listening_ports", address, "num_threads", "16",
                                 "request_timeout_ms", "1000", "enable_keep_alive", "no"});
    exposer_->RegisterCollectable(page_);
    const std::vector<int> ports = exposer_->GetListeningPorts();
    if (ports.empty()) return absl::FailedPreconditionError(absl::StrCat(address, ": no port"));
    port_ = ports.front();
    return absl::StrCat(address.substr(0, address.rfind(':')), ":", ports.front());
  } catch (const std::exception& error) {
    return absl::FailedPreconditionError(
        absl::StrCat("the metrics address ", address,
                     " is in use or cannot be had: ", static_cast<const char*>(error.what())));
  }
}

// The library's thread that accepts connections looks whether it is to end every two seconds, and
// after each connection: it gets connections until it has.
void PrometheusMetrics::StopServing() {
  if (exposer_ == nullptr) return;
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;
  std::thread knocking([&] {
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, kKnockEvery, [&] { return ended; })) Knock(port_);
  });
  exposer_ = nullptr;
  {
    const std::lock_guard lock(mutex);
    ended = true;
  }
  changed.notify_one();
  knocking.join();
}

void PrometheusMetrics::OnTick(const Core& core) {
  if (clock_->Now() < next_refresh_) return;
  next_refresh_ = clock_->Now() + kRefreshSeconds;
  jobs_.Tick(clock_->Now(), kKeepSeconds);
  isolated_.Set(core.cut_off() ? 1 : 0);
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

void PrometheusMetrics::ShowFigures() {
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
  if (agents_.count(node) == 0) {
    if (agents_.size() >= kMostNodes) return;
    const std::string label = node.substr(node.find('/') + 1);
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
