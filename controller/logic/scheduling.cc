// The half of the job machine that asks the scheduler and acts on what it decides.
#include <algorithm>
#include <bit>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "controller/logic/builds.h"
#include "controller/logic/job_events.h"
#include "controller/logic/job_machine.h"
#include "controller/logic/names.h"

namespace strata::controller {
namespace {

// What changes by time alone is looked at so often: preemption once a job has run long enough,
// fewer ranks after a while, the pace of steps.
constexpr double kReviewSeconds = 1;
// A decision takes time in proportion to what waits and to the nodes. A queue of thousands is
// decided about a few times a second, a short one at every change.
constexpr double kSecondsPerJob = 20e-6;
constexpr double kSecondsPerNode = 20e-6;
constexpr size_t kPrompt = 64;  // jobs, and nodes, that need no pause
constexpr int kMostRounds = 4;

double PauseFor(const ClusterState& state) {
  const auto beyond = [](size_t count) {
    return static_cast<double>(count > kPrompt ? count - kPrompt : 0);
  };
  return kSecondsPerJob * beyond(state.queue.size()) +
         kSecondsPerNode * beyond(state.nodes.all().size());
}

// What a queued job's record says while nothing keeps it from running but other jobs.
std::string UsualReason(const v1::JobRecord& job) {
  const bool preempted = job.has_preemption() && job.events_size() > 0;
  return preempted ? job.events(job.events_size() - 1).reason() : kWaitsForDevices;
}

}  // namespace

// Whether a job that has just come could change anything: there is room for it by number, or
// somebody less urgent.
bool JobMachine::MayFit(const JobEntry& fresh) const {
  const SchedulerState& scheduler = state_.scheduler;
  for (const auto& [kind, free] : scheduler.free) {
    if (IsKindFor(fresh.shape.device, kind) && free >= fresh.shape.ranks()) return true;
  }
  return scheduler.least_priority.has_value() &&
         *scheduler.least_priority < EffectivePriority(state_.policy, fresh.record.spec());
}

bool JobMachine::IsDue(const JobEntry* fresh) const {
  if (state_.capacity_changed || state_.cluster_changed) return true;
  // A short queue is decided about at each change, so that every job says at once why it waits.
  if (fresh != nullptr && (MayFit(*fresh) || PauseFor(state_) == 0)) return true;
  const bool waits = !state_.queue.empty() || !state_.recovering.empty();
  if (waits && state_.now >= state_.scheduler.decided_at + kReviewSeconds) return true;
  return std::any_of(state_.recovering.begin(), state_.recovering.end(),
                     [&](const std::string& name) {
                       const JobEntry& job = state_.jobs.at(name);
                       return !job.tried && MayStart(state_, job);
                     });
}

void JobMachine::Schedule(const JobEntry* fresh) {
  SchedulerState& scheduler = state_.scheduler;
  scheduler.due = scheduler.due || IsDue(fresh);
  if (state_.cluster_changed) scheduler.made = false;
  const bool changed = std::exchange(state_.cluster_changed, false);
  scheduler.retell = scheduler.retell || changed;
  state_.capacity_changed = false;
  if (!scheduler.due || state_.now < scheduler.next_at) return;
  scheduler.due = false;
  scheduler.decided_at = state_.now;
  // A job that recovers elsewhere leaves devices that were kept for it.
  for (int round = 0; round < kMostRounds && Decide(); ++round) {
  }
  scheduler.next_at = state_.now + PauseFor(state_);
}

// True: it is worth asking again.
bool JobMachine::Decide() {
  ++state_.scheduler.decisions;
  for (NodeEntry* node : ChooseBuilds(state_.nodes, state_.builds)) {
    TellNode(state_, *node, effects_);
  }
  RefreshCluster(state_);
  if (std::exchange(state_.scheduler.retell, false)) TellFeasibility();
  MoveOffDrained();
  const bool waits = !state_.queue.empty() || !state_.recovering.empty();
  if (!waits || state_.scheduler.nodes.empty()) {
    NoteSupply();
    return false;
  }
  const double began = state_.clock->Now();
  const scheduler::View view = MakeView(state_);
  const scheduler::Decisions decisions = scheduler::Decide(view);
  Effects::Decision& told = effects_.decisions.emplace_back();
  told.seconds = state_.clock->Now() - began;
  for (const scheduler::JobView& job : view.jobs) {
    if (job.phase == scheduler::JobPhase::kRecovering) {
      state_.jobs.at(absl::StrCat("jobs/", job.name)).tried = true;
    }
  }
  const size_t recovering = state_.recovering.size();
  Apply(decisions);
  NoteSupply();
  return state_.recovering.size() < recovering;
}

void JobMachine::Apply(const scheduler::Decisions& decisions) {
  for (const scheduler::Start& start : decisions.starts) {
    Begin(state_.jobs.at(absl::StrCat("jobs/", start.job)), start);
  }
  for (const scheduler::Preemption& preemption : decisions.preemptions) {
    JobEntry& victim = state_.jobs.at(absl::StrCat("jobs/", preemption.victim));
    const std::string why = preemption.why.substr(0, preemption.why.find(';'));
    ++effects_.decisions.back().preemptions;
    Preempt(victim, absl::StrCat("jobs/", preemption.by),
            absl::StrCat("preempted by ", preemption.by, " (", why, ")"));
  }
  for (const auto& [name, waiting] : decisions.waiting) {
    const auto job = state_.jobs.find(absl::StrCat("jobs/", name));
    if (job == state_.jobs.end()) continue;
    job->second.waiting = std::make_shared<const scheduler::Waiting>(waiting);
  }
}

void JobMachine::Begin(JobEntry& job, const scheduler::Start& start) {
  v1::JobRecord& record = job.record;
  Effects::Decision& told = effects_.decisions.back();
  ++told.starts;
  std::set<std::pair<std::string, int>> before;
  for (const v1::RankPlace& place : record.placement()) {
    before.insert({place.node(), place.device()});
  }
  const bool as_kept =
      record.has_moving_to() && MovingTo(state_, record).ranks == start.placement.ranks;
  LeaveGivenUp(job);
  job.run = {};
  job.run.begun_at = state_.now;
  job.waiting = nullptr;
  record.set_epoch(std::max(record.epoch() + 1, record.least_epoch()));
  record.set_attempt(record.attempt() + 1);
  record.set_step(record.checkpoint().step());
  record.set_target_step(record.spec().train().steps());
  record.set_epoch_steps(record.target_step());
  record.clear_placement();
  record.clear_start_sent();
  record.clear_epoch_nonce();
  record.clear_preemption();
  record.clear_moving_to();
  v1::RankLayout& layout = *record.mutable_layout();
  layout.Clear();
  for (const planner::Dimension dimension : start.placement.order) {
    layout.add_order(planner::NameOf(dimension));
  }
  layout.set_data(start.data);
  layout.set_why(as_kept ? "moves to the place that was kept for it" : start.why);
  for (const int spare : start.placement.spares) {
    layout.add_spares(state_.scheduler.nodes[spare]->name);
  }
  for (size_t rank = 0; rank < start.placement.ranks.size(); ++rank) {
    const scheduler::Device& device = start.placement.ranks[rank];
    const NodeEntry& node = *state_.scheduler.nodes[device.node];
    v1::RankPlace& place = *record.add_placement();
    place.set_rank(static_cast<int32_t>(rank));
    place.set_node(node.name);
    place.set_device(device.device);
    Member& member = job.run.members[node.name];
    member.ranks.push_back(static_cast<int>(rank));
    member.devices.push_back(device.device);
    if (!before.empty() && !before.contains({node.name, device.device})) ++told.replacements;
  }
  record.set_state(v1::Job::STARTING);
  record.set_reason(absl::StrCat("its ranks are being started on ", NodeList(job.run.members)));
  TellEvent(job, MakeEvent(state_, record, "STARTED", record.reason()), effects_);
  SaveJob(state_, job, effects_);
  for (const auto& [name, member] : job.run.members) {
    NodeEntry& node = *state_.nodes.Find(name);
    for (const int device : member.devices) STRATA_CHECK((node.FreeMask() >> device & 1) != 0);
    node.holds[job.key()] = {.devices = member.devices};
    SendPrepare(job, node, member);
  }
}

// For the next job that comes, and for readers.
void JobMachine::NoteSupply() {
  SchedulerState& scheduler = state_.scheduler;
  scheduler.free.clear();
  scheduler.least_priority.reset();
  scheduler::Occupancy free = FreeDevices(state_);
  for (size_t i = 0; i < scheduler.nodes.size(); ++i) {
    scheduler.free[scheduler.nodes[i]->kind] += std::popcount(free.free[i]);
  }
  scheduler.supply = std::make_shared<const Supply>(Supply{scheduler.tree, std::move(free)});
  for (const std::string& name : state_.live) {
    const int64_t priority = EffectivePriority(state_.policy, state_.jobs.at(name).record.spec());
    scheduler.least_priority = std::min(priority, scheduler.least_priority.value_or(priority));
  }
}

// Jobs that wait say whether the cluster, as it is now, could run them at all; they wait on either
// way, for nodes may come back.
void JobMachine::TellFeasibility() {
  for (const auto& [place, job] : state_.queue) {
    if (job->record.suspended()) continue;
    const std::string never = WhyInfeasible(state_, job->shape);
    const std::string reason = never.empty() ? UsualReason(job->record) : never;
    if (job->record.reason() == reason) continue;
    job->record.set_reason(reason);
    SaveJob(state_, *job, effects_);
  }
}

}  // namespace strata::controller
