#include "controller/logic/core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/logic/cluster_requests.h"
#include "controller/logic/cluster_state.h"
#include "controller/logic/explain.h"
#include "controller/logic/job_machine.h"
#include "controller/logic/job_record.h"
#include "controller/logic/job_requests.h"
#include "controller/logic/job_updates.h"
#include "controller/logic/session_handler.h"
#include "controller/logic/snapshot_maker.h"

namespace strata::controller {

class Core::Impl {
 public:
  Impl(const common::Clock* clock, topology::Description map, common::Entropy entropy)
      : clock_(clock) {
    state.clock = clock;
    state.entropy = std::move(entropy);
    state.map = std::move(map);
  }

  // Time passes. While this process itself stood still nobody could be heard and nothing be done:
  // that is nobody's silence and no deadline's time. Inputs that were handled between the awakening
  // and the tick that tells of it saw a later time: never one before the last tick.
  void Advance(double standstill_seconds = 0) {
    const double now = clock_->Now();
    state.wall += now - last_input_;  // until the next tick says it: what comes later is later
    last_input_ = now;
    const double passed = last_input_ - standstill_ - ticked_;
    standstill_ += std::clamp(standstill_seconds, 0.0, std::max(0.0, passed));
    state.now = last_input_ - standstill_;
  }

  void Ticked() { ticked_ = state.now; }

  void AdvanceHeard(absl::Span<const uint64_t> silent) {
    const double now = clock_->Now();
    const double seconds = now - last_input_;
    state.wall += seconds;
    last_input_ = now;
    state.now = now - standstill_;
    state.heard_seconds += seconds;
    state.nodes.AddSilence(silent, seconds);
  }

  // One request, with what follows from it.
  template <typename Request>
  auto Change(Effects& effects, const Request& request) {
    Advance();
    JobMachine machine(state, effects);
    auto result = request(machine);
    Finish(machine, effects);
    return result;
  }

  // After each input: what waits is placed, and the version counter is kept.
  void Finish(JobMachine& machine, Effects& effects) {
    machine.Schedule(nullptr);
    SaveVersion(state, effects);
  }

  void Start() {
    last_input_ = ticked_ = state.now = clock_->Now();
    standstill_ = state.heard_seconds = 0;
  }

  ClusterState state;
  SnapshotMaker snapshots;

 private:
  const common::Clock* clock_;
  double last_input_ = 0;
  double ticked_ = 0;      // state.now of the last tick
  double standstill_ = 0;  // seconds, all together
};

Core::Core(const common::Clock* clock, topology::Description map, common::Entropy entropy,
           const v1::ProtocolRange& protocol)
    : impl_(std::make_unique<Impl>(clock, std::move(map), std::move(entropy))) {
  impl_->state.protocol = protocol;
  impl_->Start();
}

Core::~Core() = default;

absl::StatusOr<Effects> Core::Load(const std::vector<Write>& records, double wall_seconds) {
  impl_->Start();
  ClusterState& state = impl_->state;
  state.wall = state.started_wall = wall_seconds;
  state.cluster_changed = true;
  RETURN_IF_ERROR(Restore(state, records));
  AwaitAgents(state);
  ++state.term;
  Effects effects;
  effects.writes.push_back({"meta", kTermKey, absl::StrCat(state.term)});
  NameStore(state, effects);
  return effects;
}

absl::StatusOr<v1::JobRecord> Core::CreateJob(const v1::CreateJobRequest& request, Effects& effects,
                                              const std::string& actor,
                                              const DecidedSpec* decided) {
  return impl_->Change(effects, [&](JobMachine& machine) {
    return controller::CreateJob(impl_->state, machine, request, actor, decided, effects);
  });
}

absl::StatusOr<v1::JobRecord> Core::CancelJob(const v1::CancelJobRequest& request, Effects& effects,
                                              const std::string& actor) {
  return impl_->Change(effects, [&](JobMachine& machine) {
    return controller::CancelJob(impl_->state, machine, request, actor, effects);
  });
}

absl::StatusOr<v1::JobRecord> Core::UpdateJob(const v1::UpdateJobRequest& request, Effects& effects,
                                              const std::string& actor) {
  return impl_->Change(effects, [&](JobMachine& machine) {
    return controller::UpdateJob(impl_->state, machine, request, actor, effects);
  });
}

absl::StatusOr<v1::JobRecord> Core::SuspendJob(const v1::SuspendJobRequest& request,
                                               Effects& effects, const std::string& actor) {
  return impl_->Change(effects, [&](JobMachine& machine) {
    return controller::SuspendJob(impl_->state, machine, request, actor, effects);
  });
}

absl::StatusOr<v1::JobRecord> Core::ResumeJob(const v1::ResumeJobRequest& request, Effects& effects,
                                              const std::string& actor) {
  return impl_->Change(effects, [&](JobMachine&) {
    return controller::ResumeJob(impl_->state, request, actor, effects);
  });
}

absl::Status Core::DeleteJob(const v1::DeleteJobRequest& request, Effects& effects,
                             const std::string& actor) {
  return impl_->Change(effects, [&](JobMachine& machine) {
    return controller::DeleteJob(impl_->state, machine, request, actor, effects);
  });
}

absl::StatusOr<std::vector<Core::EventPointer>> Core::JobEvents(const std::string& name) const {
  const JobEntry* job = impl_->state.Find(name);
  if (job == nullptr) return NoSuchJob(name);
  return std::vector<EventPointer>(job->events.rbegin(), job->events.rend());
}

absl::StatusOr<v1::ExplainJobResponse> Core::ExplainJob(const std::string& name) const {
  const std::shared_ptr<const Snapshot> snapshot = TakeSnapshot();
  const std::shared_ptr<const v1::JobRecord> job = snapshot->jobs.Find(name);
  if (job == nullptr) return NoSuchJob(name);
  return Explain(*snapshot, *job);
}

const v1::JobRecord* Core::FindJob(const std::string& name) const {
  const JobEntry* job = impl_->state.Find(name);
  return job == nullptr ? nullptr : &job->record;
}

v1::Job Core::ShowJob(const v1::JobRecord& record) const {
  v1::Job shown = ToJob(record);
  const JobEntry* job = impl_->state.Find(record.name());
  if (job != nullptr && job->holds_devices) {
    *shown.mutable_run_time() = ToDuration(RunSeconds(impl_->state, *job));
  }
  const bool waits = record.state() == v1::Job::QUEUED && record.reason() == kWaitsForDevices;
  if (waits && job != nullptr && job->waiting != nullptr) {
    shown.set_reason(job->waiting->reason);
  }
  return shown;
}

std::vector<const v1::JobRecord*> Core::Jobs() const {
  std::vector<const v1::JobRecord*> jobs;
  jobs.reserve(impl_->state.jobs.size());
  for (const auto& [name, job] : impl_->state.jobs) jobs.push_back(&job.record);
  return jobs;
}

std::vector<v1::Node> Core::Nodes() const {
  const std::shared_ptr<const Snapshot> snapshot = TakeSnapshot();
  std::vector<v1::Node> nodes;
  for (const std::string& name : *snapshot->node_order) {
    nodes.push_back(ShowNode(*snapshot, *snapshot->nodes.Find(name)));
  }
  return nodes;
}

std::shared_ptr<const Snapshot> Core::TakeSnapshot() const {
  return impl_->snapshots.Take(impl_->state);
}

std::optional<v1::Node> Core::FindNode(const std::string& name) const {
  const NodeEntry* node = std::as_const(impl_->state.nodes).Find(name);
  if (node == nullptr) return std::nullopt;
  return ShowNode(*node);
}

absl::StatusOr<v1::ApplyPolicyResponse> Core::ApplyPolicy(const v1::ApplyPolicyRequest& request,
                                                          Effects& effects) {
  return impl_->Change(effects, [&](JobMachine&) {
    auto response = controller::ApplyPolicy(impl_->state, request, effects);
    if (response.ok() && !request.validate_only()) RenewExpiries(impl_->state, effects);
    return response;
  });
}

const v1::Policy& Core::policy() const { return impl_->state.policy; }

absl::StatusOr<v1::Node> Core::DrainNode(const v1::DrainNodeRequest& request, Effects& effects) {
  return impl_->Change(
      effects, [&](JobMachine&) { return controller::DrainNode(impl_->state, request, effects); });
}

absl::StatusOr<v1::DrainNodesResponse> Core::DrainNodes(const v1::DrainNodesRequest& request,
                                                        Effects& effects) {
  return impl_->Change(
      effects, [&](JobMachine&) { return controller::DrainNodes(impl_->state, request, effects); });
}

absl::StatusOr<v1::Node> Core::ResumeNode(const v1::ResumeNodeRequest& request, Effects& effects) {
  return impl_->Change(
      effects, [&](JobMachine&) { return controller::ResumeNode(impl_->state, request, effects); });
}

absl::Status Core::DeleteNode(const v1::DeleteNodeRequest& request, Effects& effects) {
  return impl_->Change(
      effects, [&](JobMachine&) { return controller::DeleteNode(impl_->state, request, effects); });
}

bool Core::HasNode(const std::string& name) const {
  return impl_->state.nodes.Find(name) != nullptr;
}

const RemovedNodes& Core::removed_nodes() const { return impl_->state.removed_nodes; }

const PlanFamilies& Core::plan_families() const { return impl_->state.plan_families; }

const JoinTokens& Core::join_tokens() const { return impl_->state.join_tokens; }
JoinTokens& Core::join_tokens() { return impl_->state.join_tokens; }

void Core::Audit(v1::AuditRecord record, size_t most, Effects& effects) {
  *record.mutable_time() = ToTimestamp(impl_->state.wall);
  impl_->state.audit.Add(std::move(record), most, effects);
}

const AuditTrail::Records& Core::audit() const { return impl_->state.audit.records(); }

int64_t Core::controller_term() const { return impl_->state.term; }
const v1::StoreIdentity& Core::identity() const { return impl_->state.identity; }
int64_t Core::resource_version() const { return impl_->state.resource_version; }
int64_t Core::deletion_version() const { return impl_->state.deletion_version; }
bool Core::cut_off() const { return impl_->state.cut_off; }

void Core::OnAgent(uint64_t session, const v1::AgentMessage& message, Effects& effects) {
  impl_->Advance();
  JobMachine machine(impl_->state, effects);
  SessionHandler(impl_->state, machine, effects).OnMessage(session, message);
  impl_->Finish(machine, effects);
}

void Core::OnSessionEnd(uint64_t session, Effects&) {
  impl_->Advance();
  NodeEntry* node = impl_->state.nodes.OfSession(session);
  if (node != nullptr) impl_->state.nodes.Detach(*node);
}

void Core::OnHeard(absl::Span<const uint64_t> silent) { impl_->AdvanceHeard(silent); }

void Core::OnArrived(absl::Span<const uint64_t> sessions) {
  impl_->Advance();
  ClusterState& state = impl_->state;
  for (const uint64_t session : sessions) {
    NodeEntry* node = state.nodes.OfSession(session);
    if (node != nullptr) node->heard_at = state.ListeningNow();
  }
}

void Core::OnTick(double wall_seconds, Effects& effects, double standstill_seconds) {
  impl_->Advance(standstill_seconds);
  impl_->Ticked();
  impl_->state.wall = wall_seconds;
  JobMachine machine(impl_->state, effects);
  machine.Tick();
  impl_->Finish(machine, effects);
}

}  // namespace strata::controller
