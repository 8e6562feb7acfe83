#include "controller/simulator/controller_host.h"

#include <limits>
#include <utility>

#include "common/check.h"

namespace strata::simulator {
namespace {

constexpr double kWall = 1.7e9;
// After an alert: what is due within seconds (silent nodes, stops, back-offs), then leases and
// waits of a minute.
constexpr double kSoonSeconds = 6, kSoonTick = 1.5;
constexpr double kLaterSeconds = 65, kLaterTick = 15;
constexpr double kIdleTick = 600;
constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

ControllerHost::ControllerHost(Events* events, const topology::Description& cluster,
                               double waiting_tick_seconds, PlantedBug bug)
    : events_(events), waiting_tick_seconds_(waiting_tick_seconds), bug_(bug) {
  map_.levels = cluster.levels;
  map_.domain_level = cluster.domain_level;
  map_.pipeline_level = cluster.pipeline_level;
  map_.links = cluster.links;
}

void ControllerHost::Start() {
  core_ = std::make_unique<controller::Core>(events_, map_, entropy_);
  std::vector<controller::Write> records;
  for (const auto& [key, write] : store_) records.push_back(write);
  absl::StatusOr<controller::Effects> loaded = core_->Load(records, kWall + events_->Now());
  STRATA_CHECK(loaded.ok());  // what it wrote itself
  effects_ = *std::move(loaded);
  Alert();
  if (listener_.on_start) listener_.on_start();
}

void ControllerHost::Kill(double down_seconds) {
  if (!up()) return;
  core_.reset();
  effects_ = {};
  silent_.clear();
  next_tick_ = kNever;
  events_->After(down_seconds, [this] {
    if (!up()) Start();
  });
}

void ControllerHost::Begin() {
  ++inputs_;
  core_->OnHeard(std::vector<uint64_t>(silent_.begin(), silent_.end()));
}

void ControllerHost::Say(uint64_t session, const v1::AgentMessage& message) {
  if (!up()) return;
  Begin();
  core_->OnAgent(session, message, effects_);
}

// Until now it was heard, however long ago the last input was.
void ControllerHost::Silence(uint64_t session) {
  if (up()) Begin();
  silent_.insert(session);
}

void ControllerHost::EndSession(uint64_t session) {
  if (!up()) return;
  Begin();
  silent_.erase(session);
  core_->OnSessionEnd(session, effects_);
  Alert();
}

absl::StatusOr<v1::JobRecord> ControllerHost::Create(const v1::CreateJobRequest& request) {
  if (!up()) return absl::UnavailableError("the controller is down");
  Begin();
  return core_->CreateJob(request, effects_);
}

absl::Status ControllerHost::Apply(const v1::Policy& policy) {
  Begin();
  v1::ApplyPolicyRequest request;
  *request.mutable_policy() = policy;
  return core_->ApplyPolicy(request, effects_).status();
}

void ControllerHost::Cancel(const std::string& job) {
  if (!up()) return;
  Begin();
  v1::CancelJobRequest request;
  request.set_name(job);
  (void)core_->CancelJob(request, effects_);
  Alert();
}

void ControllerHost::Drain(const std::string& node, bool drain) {
  if (!up()) return;
  Begin();
  v1::DrainNodeRequest drained;
  v1::ResumeNodeRequest resumed;
  drained.set_name("nodes/" + node);
  resumed.set_name("nodes/" + node);
  // Unknown when it never joined.
  (void)(drain ? core_->DrainNode(drained, effects_) : core_->ResumeNode(resumed, effects_));
  Alert();
}

void ControllerHost::Alert() {
  alerted_at_ = events_->Now();
  if (up() && next_tick_ > events_->Now() + kSoonTick) TickAt(events_->Now() + kSoonTick);
}

void ControllerHost::TickAt(double time) {
  next_tick_ = time;
  events_->At(time, [this, number = ++last_tick_] {
    if (number == last_tick_ && up()) Tick();
  });
}

void ControllerHost::Tick() {
  Begin();
  ++ticks_;
  core_->OnTick(kWall + events_->Now(), effects_);
  const double since = events_->Now() - alerted_at_;
  TickAt(events_->Now() + (since < kSoonSeconds    ? kSoonTick
                           : since < kLaterSeconds ? kLaterTick
                           : !waiting_.empty()     ? waiting_tick_seconds_
                                                   : kIdleTick));
}

void ControllerHost::MakeDurable(std::vector<controller::Write>& writes) {
  if (writes.empty()) return;
  ++commits_;
  writes_ += static_cast<int64_t>(writes.size());
  for (controller::Write& write : writes) {
    written_bytes_ += static_cast<int64_t>(write.value.size());
    const std::pair<std::string, std::string> key(write.table, write.key);
    if (write.erase) {
      store_.erase(key);
    } else if (bug_ != PlantedBug::kForgetsCheckpoints || write.table != "jobs" ||
               commits_ % 3 != 0 || !store_.contains(key)) {
      store_[key] = std::move(write);
    }
  }
}

void ControllerHost::Flush() {
  controller::Effects effects = std::exchange(effects_, {});
  MakeDurable(effects.writes);
  for (const v1::JobRecord& job : effects.changed) {
    const bool waits = job.state() == v1::Job::QUEUED || job.state() == v1::Job::RECOVERING;
    waits ? (void)waiting_.insert(job.name()) : (void)waiting_.erase(job.name());
    if (listener_.on_changed) listener_.on_changed(job);
  }
  messages_ += static_cast<int64_t>(effects.messages.size());
  if (!effects.messages.empty() && listener_.on_messages) {
    listener_.on_messages(std::move(effects.messages));
  }
}

}  // namespace strata::simulator
