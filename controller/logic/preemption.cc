// The half of the job machine that stops jobs with which nothing is wrong: for a more urgent one,
// which sends them back to the queue, or because their node is drained, after which they recover
// as after a failure, at the place that was found before.
#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "controller/logic/buffer.h"
#include "controller/logic/job_machine.h"
#include "controller/logic/job_shape.h"
#include "controller/logic/names.h"
#include "controller/logic/scheduler_view.h"

namespace strata::controller {
namespace {

bool IsMove(const v1::Preemption& preemption) {
  return absl::StrContains(preemption.by(), "nodes/");
}

// Of a stop for the job itself.
const char* OwnCause(const v1::Preemption& preemption) {
  if (preemption.reason() == kSuspended) return "suspended";
  return preemption.reason() == kOtherSteps ? "updated" : "restored";
}

bool Stops(const JobEntry& job) {
  return job.record.cancel_requested() || job.record.has_preemption() ||
         job.run.stop_asked_at.has_value();
}

// Its devices on nodes that take ranks become free in `free`.
void AddDevices(const ClusterState& state, const JobEntry& job, scheduler::Occupancy& free) {
  for (const scheduler::Device& rank : PlacementOf(state, job.record).ranks) {
    if (rank.node >= 0 && state.scheduler.nodes[rank.node]->TakesRanks()) {
      free.free[rank.node] |= uint64_t{1} << rank.device;
    }
  }
}

}  // namespace

void JobMachine::StopForItself(JobEntry& job, const std::string& reason) {
  Preempt(job, job.record.name(), reason);
}

void JobMachine::Park(JobEntry& job, const std::string& reason, const v1::Preemption* made_room) {
  v1::JobRecord& record = job.record;
  job.run = {};
  record.clear_preemption();
  if (made_room != nullptr) *record.mutable_preemption() = *made_room;
  record.clear_moving_to();
  record.clear_placement();
  record.clear_layout();
  record.clear_start_sent();
  record.clear_epoch_steps();
  record.set_state(v1::Job::QUEUED);
  record.set_reason(reason);
  SaveJob(state_, job, effects_);
  state_.capacity_changed = true;
}

// The wish is in the record before any rank hears of it, and outlives this controller.
void JobMachine::Preempt(JobEntry& job, const std::string& by, const std::string& reason) {
  v1::JobRecord& record = job.record;
  if (!HasEpoch(record.state()) || record.cancel_requested() || record.has_preemption()) return;
  record.mutable_preemption()->set_by(by);
  record.mutable_preemption()->set_reason(reason);
  record.set_reason(
      absl::StrCat("is being stopped: ", reason,
                   record.state() == v1::Job::RUNNING ? "; its ranks write a checkpoint" : ""));
  SaveJob(state_, job, effects_);
  Reconcile(job);
}

void JobMachine::ReconcilePreemption(JobEntry& job) {
  EpochRun& run = job.run;
  const bool trains = job.record.state() == v1::Job::RUNNING;
  if (!run.stop_asked_at.has_value()) {
    run.stop_asked_at = state_.now;
    StopAll(job, job.record.preemption().reason(), /*checkpoint=*/trains);
  }
  AdvanceStop(job);
  const bool ended = std::all_of(run.members.begin(), run.members.end(), [](const auto& member) {
    return member.second.state == MemberState::kEnded;
  });
  if (ended && !run.failure.has_value()) return LetGo(job, "");
  if (run.failure.has_value()) {
    return LetGo(job,
                 trains ? absl::StrCat(", without a last checkpoint: ", run.failure->reason) : "");
  }
  if (state_.now > *run.stop_asked_at + state_.timing.cancel_seconds) {
    LetGo(job, absl::StrFormat(", without a last checkpoint: it was not written within %g s",
                               state_.timing.cancel_seconds));
  }
}

// Its ranks have ended, or are being ended.
void JobMachine::LetGo(JobEntry& job, const std::string& how) {
  v1::JobRecord& record = job.record;
  if (HasFinalCheckpoint(record)) return Succeed(job);  // whatever broke broke after the work
  const v1::Preemption preemption = record.preemption();
  const bool moves = IsMove(preemption);
  const bool for_itself = preemption.by() == record.name();
  const int64_t step = how.empty() ? record.step() : record.checkpoint().step();
  const std::string reason = absl::StrCat(preemption.reason(), " at step ", step, how);
  const char* const cause = for_itself ? OwnCause(preemption) : moves ? "drained" : "preempted";
  AddEvent(job, "STOPPED", reason, cause);
  StopAll(job, reason, /*checkpoint=*/false);
  if (record.suspended()) {
    return Park(job, for_itself ? reason : absl::StrCat(kSuspended, "; ", reason));
  }
  // It still says for whom: that one goes first.
  if (!moves && !for_itself) return Park(job, reason, &preemption);
  job.run = {};
  job.failed_at = job.next_start_at = state_.now;
  job.counted = job.claim_over = job.tried = false;
  job.culprit_known = true;
  record.clear_preemption();
  record.set_reason(reason);
  record.set_state(v1::Job::RECOVERING);
  SaveJob(state_, job, effects_);
  state_.capacity_changed = true;
}

// Takes time in proportion to the jobs' ranks, and to the nodes for each job that is to move.
void JobMachine::MoveOffDrained() {
  std::set<std::string> left;  // nodes/NAME
  for (const NodeEntry* node : state_.scheduler.nodes) {
    if (node->drained || node->leaving) left.insert(node->name);
  }
  if (left.empty()) return;
  const auto is_there = [&](const JobEntry& job) {
    const auto& places = job.record.placement();
    return std::any_of(places.begin(), places.end(),
                       [&](const v1::RankPlace& place) { return left.contains(place.node()); });
  };
  std::optional<scheduler::Occupancy> free;
  const std::vector<std::string> live(state_.live.begin(), state_.live.end());
  for (const std::string& name : live) {
    JobEntry& job = state_.jobs.at(name);
    if (!HasEpoch(job.record.state()) || Stops(job) || !is_there(job)) continue;
    if (!free.has_value()) free = FreeDevices(state_);
    if (!MoveOff(job, *free)) {
      job.waiting = std::make_shared<const scheduler::Waiting>(
          scheduler::Waiting{.reason = "it stays on a drained node, for it fits nowhere else now"});
    }
  }
}

// A job is not stopped before it has another place: its ranks elsewhere keep theirs where that can
// be. Takes that from `all_free`. False: there is none now.
bool JobMachine::MoveOff(JobEntry& job, scheduler::Occupancy& all_free) {
  scheduler::Placement old = PlacementOf(state_, job.record);
  scheduler::Occupancy free = all_free;
  std::string drained, left;
  for (scheduler::Device& rank : old.ranks) {
    if (rank.node < 0) continue;
    const NodeEntry& node = *state_.scheduler.nodes[rank.node];
    if (node.TakesRanks()) {
      free.free[rank.node] |= uint64_t{1} << rank.device;
    } else {
      if (node.drained) drained = node.name;
      if (node.leaving) left = node.name;
      rank = {};
    }
  }
  if (drained.empty() && left.empty()) return true;
  const topology::Cluster& cluster = state_.scheduler.cluster;
  const scheduler::Shape shape = ShapeOf(job.record, job.record.layout().data());
  auto found = scheduler::Replace(cluster, free, shape, old, old.spares);
  if (!found.has_value()) found = scheduler::Place(cluster, free, shape);
  if (!found.has_value()) {
    TakeBackBuffer(job, shape, old, free);
    if (left.empty()) return false;
    // It would end with the node, and without a checkpoint.
    Preempt(job, left, absl::StrCat("stopped, for ", ShortName(left), " is about to go,"));
    return true;
  }
  v1::KeptPlace& kept = *job.record.mutable_moving_to();
  for (const planner::Dimension dimension : found->order) {
    kept.add_order(planner::NameOf(dimension));
  }
  for (size_t rank = 0; rank < found->ranks.size(); ++rank) {
    v1::RankPlace& place = *kept.add_ranks();
    place.set_rank(static_cast<int32_t>(rank));
    place.set_node(state_.scheduler.nodes[found->ranks[rank].node]->name);
    place.set_device(found->ranks[rank].device);
    all_free.free[found->ranks[rank].node] &= ~(uint64_t{1} << found->ranks[rank].device);
  }
  if (left.empty()) {
    Preempt(job, drained, absl::StrCat("moved, for ", ShortName(drained), " is drained,"));
  } else {
    Preempt(job, left, absl::StrCat("moved, for ", ShortName(left), " is about to go,"));
  }
  return true;
}

// Ranks on a drained node found no room: jobs that borrowed nodes of the buffer are stopped, no
// more of them than it takes, unless those that stop already leave enough.
void JobMachine::TakeBackBuffer(const JobEntry& job, const scheduler::Shape& shape,
                                const scheduler::Placement& old, scheduler::Occupancy free) {
  const BufferState buffer = BufferNow(state_);
  if (buffer.lent.empty() || RunsPreemptibly(state_, job)) return;
  const auto find = [&]() -> std::optional<scheduler::Placement> {
    const topology::Cluster& cluster = state_.scheduler.cluster;
    auto found = scheduler::Replace(cluster, free, shape, old, old.spares);
    return found.has_value() ? std::move(found) : scheduler::Place(cluster, free, shape);
  };
  std::vector<std::string> borrowers;
  for (const std::string& name : state_.live) {
    const JobEntry& other = state_.jobs.at(name);
    if (&other == &job || !RunsPreemptibly(state_, other)) continue;
    if (Stops(other)) {
      AddDevices(state_, other, free);
    } else if (std::any_of(other.record.placement().begin(), other.record.placement().end(),
                           [&](const auto& place) { return buffer.lent.contains(place.node()); })) {
      borrowers.push_back(name);
    }
  }
  if (find().has_value()) return;
  for (size_t count = 1; count <= borrowers.size(); ++count) {
    AddDevices(state_, state_.jobs.at(borrowers[count - 1]), free);
    if (!find().has_value()) continue;
    for (size_t i = 0; i < count; ++i) {
      Preempt(state_.jobs.at(borrowers[i]), job.record.name(),
              absl::StrCat("preempted by ", ShortName(job.record.name()),
                           " (it had borrowed nodes of the buffer)"));
    }
    return;
  }
}

}  // namespace strata::controller
