// What silence proves, and what it does not: a controller that is cut off hears nobody, and yet all
// jobs train.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/logic/job_events.h"
#include "controller/logic/job_machine.h"
#include "controller/logic/names.h"

namespace strata::controller {
namespace {

// Most nodes may really be lost. While others are heard, their jobs wait for that verdict no
// longer.
constexpr double kLongestDoubtLeases = 10;

}  // namespace

// As Kubernetes' node controller under a full disruption: when more than half of the nodes that
// were there, and two at least, are silent at once, it is rather the controller that lost them all.
// Those that it has not heard since its start count as well while it hears nobody. Leases begin
// anew when half are back.
void JobMachine::JudgeOwnConnection() {
  int there = 0, silent = 0, awaited = 0;
  for (const auto& [name, node] : state_.nodes.all()) {
    if (node.gone) continue;
    const bool is_silent = state_.SilenceOf(node) > state_.timing.node_lost_seconds;
    there += node.met ? 1 : 0;
    silent += node.met && is_silent ? 1 : 0;
    awaited += !node.met && is_silent ? 1 : 0;
  }
  const bool heard_nobody = there == 0;  // since its start
  if (silent == there) {
    there += awaited;
    silent += awaited;
  }
  const bool most = silent >= 2 && 2 * silent > there;
  if (!state_.cut_off && most) {
    state_.cut_off = true;
    state_.cut_off_since = state_.now;
  }
  if (!state_.cut_off || heard_nobody) return;
  const double longest = kLongestDoubtLeases * state_.timing.lease_seconds;
  if (most && (silent == there || state_.now <= state_.cut_off_since + longest)) return;
  state_.cut_off = false;
  // Not after the longest doubt: those nodes were waited for long enough.
  if (most) return;
  for (auto& [name, node] : state_.nodes.all()) {
    if (!node.gone) node.lease_from = state_.ListeningNow();
  }
}

// If anybody can hear of the failure, the others of the epoch are stopped, and it is over.
bool JobMachine::MayBeTakenBack(const JobEntry& job, const Failure& failure) const {
  if (!failure.silence || job.record.state() != v1::Job::RUNNING) return false;
  if (IsToEnd(job) || job.record.has_preemption()) return false;
  return std::all_of(job.run.members.begin(), job.run.members.end(), [&](const auto& entry) {
    const NodeEntry& node = *state_.nodes.Find(entry.first);
    return entry.second.state == MemberState::kRunning && !entry.second.missed_at.has_value() &&
           state_.SilenceOf(node) > state_.timing.node_lost_seconds;
  });
}

// Its last event cost no step.
void JobMachine::LoseNothing(JobEntry& job) {
  if (job.record.events().empty()) return;
  v1::JobEvent& last = *job.record.mutable_events(job.record.events_size() - 1);
  last.set_lost_steps(0);
  CorrectEvent(job, last, effects_);
}

void JobMachine::TakeBack(JobEntry& job, const NodeEntry& node) {
  v1::JobRecord& record = job.record;
  job.run = std::move(job.given_up->run);
  record.set_restarts_without_progress(job.given_up->without_progress);
  job.given_up.reset();
  record.clear_restarts_before_silence();
  for (const auto& [name, member] : job.run.members) {
    state_.nodes.Find(name)->lease_from = state_.ListeningNow();
  }
  LoseNothing(job);
  AddEvent(job, "RUNNING", absl::StrCat("taken back: ", ShortName(node.name), " is back"),
           "taken_back");
  LoseNothing(job);
  record.set_state(v1::Job::RUNNING);
  record.set_reason(absl::StrCat("trains on ", NodeList(job.run.members)));
  SaveJob(state_, job, effects_);
}

void JobMachine::LeaveGivenUp(JobEntry& job) {
  if (!job.given_up.has_value()) return;
  const GivenUp given_up = *std::exchange(job.given_up, std::nullopt);
  job.record.clear_restarts_before_silence();
  Blame(job, given_up.failure);
  for (const auto& [name, member] : given_up.run.members) {
    NodeEntry* node = state_.nodes.Find(name);
    if (!node->holds.contains(job.key())) continue;
    Stop(*node, job.key(), given_up.failure.reason, /*checkpoint=*/false);
  }
}

}  // namespace strata::controller
