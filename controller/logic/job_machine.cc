#include "controller/logic/job_machine.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "controller/logic/job_events.h"
#include "controller/logic/job_updates.h"
#include "controller/logic/names.h"
#include "controller/logic/node_removal.h"
#include "controller/logic/restart_policy.h"
#include "protocol/agreement.h"
#include "spec/scalars.h"

namespace strata::controller {
namespace {

constexpr int kMostEvents = 50;
constexpr size_t kMostDeletions = 100;  // at a time
constexpr int kNonceBytes = 16;

bool AllMembers(const EpochRun& run, MemberState at_least) {
  return std::all_of(run.members.begin(), run.members.end(),
                     [&](const auto& member) { return member.second.state >= at_least; });
}

int64_t LostSteps(const v1::JobRecord& job, int64_t step) {
  return std::max<int64_t>(0, step - job.checkpoint().step());
}

// Whether its ranks, found or taken back, train to another step than the job does now.
bool HasOtherSteps(const JobEntry& job) {
  const v1::JobRecord& record = job.record;
  return record.state() == v1::Job::RUNNING && record.epoch_steps() != 0 &&
         record.epoch_steps() != record.target_step();
}

std::string Times(int64_t count) {
  return count == 1 ? "once" : absl::StrCat(count, " times in a row");
}

// Of this failure and the restarts before it, newest first; the same ones in a row are said once,
// with their epochs.
std::string LastReasons(const v1::JobRecord& job, const Failure& failure) {
  constexpr size_t kMost = 3;
  struct Reason {
    std::string text;
    int64_t first = 0, last = 0;  // epochs
  };
  std::vector<Reason> reasons = {{failure.reason, job.epoch(), job.epoch()}};
  for (int i = job.events_size() - 1; i >= 0; --i) {
    const v1::JobEvent& event = job.events(i);
    if (event.reason() == reasons.back().text) {
      reasons.back().first = event.epoch();
    } else if (reasons.size() < kMost) {
      reasons.push_back({event.reason(), event.epoch(), event.epoch()});
    } else {
      break;
    }
  }
  std::vector<std::string> parts;
  for (const Reason& reason : reasons) {
    parts.push_back(
        reason.first == reason.last
            ? reason.text
            : absl::StrCat(reason.text, " (epochs ", reason.first, "–", reason.last, ")"));
  }
  return absl::StrJoin(parts, "; before that: ");
}

}  // namespace

bool LeaseIsOver(const ClusterState& state, const NodeEntry& node) {
  // A controller that has just started gives agents some more time to find it.
  const double grace = node.state == v1::Node::UNKNOWN ? state.timing.node_lost_seconds : 0;
  return !state.cut_off && state.LeaseUsed(node) > state.timing.lease_seconds + grace;
}

std::string NodeList(const std::map<std::string, Member>& members) {
  constexpr size_t kMost = 4;
  std::vector<std::string> names;
  for (const auto& [name, member] : members) {
    if (names.size() < kMost) names.push_back(ShortName(name));
  }
  if (members.size() > kMost)
    return absl::StrCat(absl::StrJoin(names, ", "), " and ", members.size() - kMost, " more");
  if (names.size() < 2) return absl::StrJoin(names, "");
  const std::string last = names.back();
  names.pop_back();
  return absl::StrCat(absl::StrJoin(names, ", "), " and ", last);
}

void JobMachine::Report(JobEntry& job, Failure failure) {
  if (!job.run.failure.has_value()) job.run.failure = std::move(failure);
}

void JobMachine::Reconcile(JobEntry& job) {
  if (HasEpoch(job.record.state())) return ReconcileEpoch(job);
  if (IsTerminal(job.record.state())) return;
  const bool queued = job.record.state() == v1::Job::QUEUED;
  if (const std::optional<Ending> ending = EndingOf(job); ending.has_value()) {
    End(job, *ending, queued ? " before it began" : " between two starts of its ranks");
  } else if (!queued && job.record.suspended()) {
    LeaveGivenUp(job);
    Park(job, kSuspended);
  }
}

std::optional<JobMachine::Ending> JobMachine::EndingOf(const JobEntry& job) const {
  const v1::JobRecord& record = job.record;
  const double usual = state_.timing.cancel_seconds;
  if (record.cancel_requested()) {
    const std::string& why = record.cancel_reason();
    return Ending{.what = why.empty() ? "cancelled" : absl::StrCat("cancelled (", why, ")"),
                  .cause = "user",
                  .actor = record.cancel_actor(),
                  .grace = record.has_cancel_grace() ? SecondsOf(record.cancel_grace()) : usual};
  }
  const google::protobuf::Duration& limit = record.spec().time_limit();
  if (!record.spec().has_time_limit() || RunSeconds(state_, job) < SecondsOf(limit)) {
    return std::nullopt;
  }
  if (record.suspended()) return std::nullopt;  // it was asked to stop before that
  return Ending{.outcome = v1::Job::FAILED,
                .what = absl::StrCat("out of time (time_limit ",
                                     spec::DurationText(absl::Seconds(SecondsOf(limit))), ")"),
                .cause = "time_limit",
                .grace = usual};
}

bool JobMachine::IsToEnd(const JobEntry& job) const { return EndingOf(job).has_value(); }

void JobMachine::ReconcileEpoch(JobEntry& job) {
  const bool all_ended = AllMembers(job.run, MemberState::kEnded);
  if (all_ended && !job.run.failure.has_value() && HasFinalCheckpoint(job.record)) {
    return Succeed(job);
  }
  if (const std::optional<Ending> ending = EndingOf(job); ending.has_value()) {
    return ReconcileEnding(job, *ending);
  }
  if (job.record.has_preemption()) return ReconcilePreemption(job);
  if (HasOtherSteps(job) && !job.run.failure.has_value()) return StopForItself(job, kOtherSteps);
  if (all_ended && !job.run.failure.has_value()) {
    ReportUncommitted(job, "its ranks ended before the checkpoint of the last step was committed");
  }
  ReportLostFragments(job);
  if (job.record.state() == v1::Job::STARTING) {
    ReportLatePreparation(job);
    if (!job.run.failure.has_value()) AdvanceStart(job);
  }
  // What ended since the backup may have been followed by an epoch that has yet to be found.
  if (job.run.failure.has_value() && !state_.IsAwaited(job)) Fail(job);
}

void JobMachine::ReconcileEnding(JobEntry& job, const Ending& ending) {
  EpochRun& run = job.run;
  if (job.record.state() == v1::Job::STARTING) {
    return End(job, ending, " while its ranks were being started");
  }
  if (ending.grace <= 0) return End(job, ending, " at once, without a last checkpoint");
  if (!run.stop_asked_at.has_value() || job.record.has_preemption()) {
    job.record.clear_preemption();
    run.stop_asked_at = state_.now;
    if (!job.record.cancel_requested()) {  // known to a later controller before any rank stops
      job.record.set_reason(
          absl::StrCat("is being stopped: ", ending.what, "; its ranks write a checkpoint"));
      SaveJob(state_, job, effects_);
    }
    StopAll(job, ending.what, /*checkpoint=*/true);
  }
  AdvanceStop(job);
  if (AllMembers(run, MemberState::kEnded)) return End(job, ending, "");
  if (run.failure.has_value()) {
    return End(job, ending, absl::StrCat(", without a last checkpoint: ", run.failure->reason));
  }
  if (state_.now > *run.stop_asked_at + ending.grace) {
    End(job, ending,
        absl::StrFormat(", without a last checkpoint: it was not written within %g s",
                        ending.grace));
  }
}

// All ranks end after the same step: the greatest that one of them is in.
void JobMachine::AdvanceStop(JobEntry& job) {
  EpochRun& run = job.run;
  if (run.last_step.has_value() || run.members.size() < 2) return;
  int64_t last = 0;
  for (const auto& [name, member] : run.members) {
    if (member.state == MemberState::kEnded) continue;
    if (!member.stopping_at.has_value()) return;
    last = std::max(last, *member.stopping_at);
  }
  run.last_step = last;
  for (const auto& [name, member] : run.members) SendStopAfter(job, *state_.nodes.Find(name));
}

void JobMachine::ReportSilentNodes(JobEntry& job) {
  for (const auto& [name, member] : job.run.members) {
    const NodeEntry* node = state_.nodes.Find(name);
    if (member.state == MemberState::kEnded) continue;
    if (member.missed_at.has_value() && !state_.IsAwaited(job) &&
        state_.now > *member.missed_at + state_.timing.heartbeat_seconds) {
      Report(job, {.reason = absl::StrCat("the ranks on ", ShortName(name), " are gone, as ",
                                          member.first_heard
                                              ? "was found when the controller had been restarted"
                                              : "its agent found when it came back"),
                   .cause = member.first_heard ? "cluster_restart" : "node_lost",
                   .counts = !member.first_heard,
                   .node = member.first_heard ? "" : name});
    }
    if (!LeaseIsOver(state_, *node)) continue;
    // All ranks take part in a step: one that was done proves that those of the silent node live.
    if (job.run.paced && state_.now <= job.run.stepped_at + state_.timing.lease_seconds) continue;
    Report(job, {.reason = absl::StrFormat(
                     "%s has not been heard from for %.0f s (the lease of its "
                     "trainers is %g s)",
                     ShortName(name), state_.SilenceOf(*node), state_.timing.lease_seconds),
                 .cause = node->met ? "node_lost" : "cluster_restart",
                 .counts = node->met,
                 .node = node->met ? name : "",
                 .silence = true});
  }
}

// Ranks that have ended cannot repeat what they wrote: without it the last checkpoint never comes.
void JobMachine::ReportLostFragments(JobEntry& job) {
  if (HasFinalCheckpoint(job.record)) return;
  for (const auto& [name, member] : job.run.members) {
    if (member.state != MemberState::kEnded) continue;
    const protocol::FragmentBook& book = job.run.fragments;
    if (book.Has(job.record.target_step(), member.ranks) && book.HasAllOf(member.ranks)) continue;
    ReportUncommitted(job, absl::StrCat("the ranks on ", ShortName(name),
                                        " ended, and what they wrote last did not arrive"));
  }
}

// Where nothing has been committed since the backup, the last checkpoint may count since before:
// the next start finds it.
void JobMachine::ReportUncommitted(JobEntry& job, const std::string& reason) {
  const bool restored = job.record.restored();
  Report(job,
         {.reason = restored ? absl::StrCat(reason, ", or before the state was restored") : reason,
          .cause = restored ? "restored" : "commit_failed",
          .counts = !restored});
}

void JobMachine::ReportLatePreparation(JobEntry& job) {
  const double limit = state_.timing.PrepareSeconds(job.record.placement_size());
  if (job.run.start_sent || state_.now <= job.run.begun_at + limit) return;
  std::map<std::string, Member> late;
  for (const auto& [name, member] : job.run.members) {
    if (member.state == MemberState::kAsked) late.emplace(name, member);
  }
  Report(job, {.reason = absl::StrFormat("%s did not prepare its ranks within %g s",
                                         late.empty() ? "the job" : NodeList(late), limit),
               .cause = "start_failed"});
}

// A node may have been upgraded since it was chosen. Those that do not say what they have are taken
// to be of one.
bool JobMachine::OfOneBuild(const EpochRun& run) const {
  std::set<std::string> builds;
  for (const auto& [name, member] : run.members) builds.insert(state_.nodes.Find(name)->build);
  return builds.size() == 1;
}

// Two phases: when all ranks are prepared and agree, they are given each other's addresses.
void JobMachine::AdvanceStart(JobEntry& job) {
  EpochRun& run = job.run;
  if (!run.start_sent && static_cast<int>(run.prepared.size()) == job.record.placement_size()) {
    if (const absl::Status agreed = protocol::CheckAgreement(run.prepared); !agreed.ok()) {
      return Report(job, {.reason = std::string(agreed.message()),
                          .cause = "start_failed",
                          .permanent = OfOneBuild(run)});
    }
    run.start_sent = true;
    if (!job.record.start_sent()) {  // known to a later controller before any rank begins
      job.record.set_start_sent(true);
      if (job.record.data_files().empty()) *job.record.mutable_data_files() = run.data_files;
      job.record.set_epoch_nonce(common::DrawBytes(state_.entropy, kNonceBytes));
      SaveJob(state_, job, effects_);
    }
    StartParts parts;
    for (auto& [name, member] : run.members) {
      if (member.state >= MemberState::kRunning) continue;
      member.state = MemberState::kStarted;
      SendStart(job, *state_.nodes.Find(name), member, parts);
    }
  }
  if (!AllMembers(run, MemberState::kRunning)) return;
  job.refused_at.reset();
  job.refusals = 0;
  job.record.set_state(v1::Job::RUNNING);
  job.record.set_reason(absl::StrCat("trains on ", NodeList(run.members),
                                     run.notice.empty() ? "" : "; ", run.notice));
  TellEvent(job, MakeEvent(state_, job.record, "RUNNING", job.record.reason()), effects_);
  SaveJob(state_, job, effects_);
}

// Room on a disk, or a data file: a job that trained before waits for it for a while.
bool JobMachine::MayComeBack(JobEntry& job) const {
  if (!job.refused_at.has_value()) job.refused_at = state_.now;
  ++job.refusals;
  return job.record.has_checkpoint() &&
         state_.now <= *job.refused_at + state_.timing.refused_seconds;
}

void JobMachine::Fail(JobEntry& job) {
  Failure failure = *job.run.failure;
  JudgeCheckpoint(job, failure);
  if (failure.permanent) return End(job, v1::Job::FAILED, failure.reason, failure.cause);
  // All steps are done and their result counts: whatever broke broke after the work.
  if (HasFinalCheckpoint(job.record)) return Succeed(job);
  const bool counts = failure.counts && !(failure.refused && MayComeBack(job));
  const int64_t before = job.record.restarts_without_progress();
  const int64_t without_progress = WithoutProgressAfter(job.record, counts);
  job.record.set_restarts_without_progress(without_progress);
  if (counts && !MayRestart(job.record, without_progress)) {
    Exonerate(job, failure);
    return End(job, v1::Job::FAILED,
               absl::StrCat("its ranks ended ", Times(without_progress),
                            " without a new checkpoint (restart.max_without_progress); last: ",
                            LastReasons(job.record, failure)),
               failure.cause, kControllerActor, failure.detail);
  }
  AddEvent(job, "RESTART", failure.reason, failure.cause, kControllerActor, failure.detail);
  if (MayBeTakenBack(job, failure)) {
    job.record.set_restarts_before_silence(before);
    job.run.failure.reset();
    job.given_up = GivenUp{std::move(job.run), failure, before};
  } else {
    Blame(job, failure);
    StopAll(job, failure.reason, /*checkpoint=*/false);
  }
  job.run = {};
  job.failed_at = state_.now;
  const double back_off =
      BackOff(std::max(without_progress, job.refusals), state_.timing.back_off_seconds);
  job.next_start_at = state_.now + (failure.counts ? back_off : 0);
  job.counted = counts && without_progress > 0;
  job.culprit_known = failure.sure;
  job.claim_over = job.tried = false;
  job.record.set_state(v1::Job::RECOVERING);
  job.record.set_reason(failure.reason);
  SaveJob(state_, job, effects_);
}

void JobMachine::Attribute(JobEntry& job, Failure failure) {
  if (job.culprit_known || job.record.events_size() == 0) return;
  job.culprit_known = true;
  JudgeCheckpoint(job, failure);
  Blame(job, failure);
  if (job.counted && !failure.counts) {
    job.counted = false;
    job.record.set_restarts_without_progress(job.record.restarts_without_progress() - 1);
    job.next_start_at = state_.now;
  }
  v1::JobEvent& event = *job.record.mutable_events(job.record.events_size() - 1);
  event.set_reason(failure.reason);
  event.set_cause(failure.cause);
  event.set_lost_steps(LostSteps(job.record, event.step()));
  v1::JobEvent told = event;
  told.set_detail(failure.detail);
  CorrectEvent(job, told, effects_);
  job.record.set_reason(failure.reason);
  SaveJob(state_, job, effects_);
}

void JobMachine::Succeed(JobEntry& job) {
  v1::JobRecord& record = job.record;
  const int64_t asked = record.target_step();
  record.set_target_step(record.checkpoint().step());
  // Fewer were wished for when its ranks were beyond them already.
  const std::string more =
      record.target_step() == asked ? "" : absl::StrCat(", of which ", asked, " were asked for");
  End(job, v1::Job::SUCCEEDED, absl::StrCat("finished all ", record.target_step(), " steps", more),
      "");
}

void JobMachine::End(JobEntry& job, const Ending& ending, const std::string& how) {
  End(job, ending.outcome, absl::StrCat(ending.what, how), ending.cause, ending.actor);
}

void JobMachine::End(JobEntry& job, v1::Job::State outcome, const std::string& reason,
                     const std::string& cause, const std::string& actor,
                     const std::string& detail) {
  v1::JobRecord& record = job.record;
  LeaveGivenUp(job);
  StopAll(job, reason, /*checkpoint=*/false);
  job.run = {};
  AddEvent(job, "END", reason, cause, actor, detail);
  record.clear_preemption();
  record.clear_moving_to();
  record.clear_suspended();
  if (outcome == v1::Job::SUCCEEDED) record.set_step(record.target_step());
  record.set_state(outcome);
  record.set_reason(reason);
  *record.mutable_end_time() = ToTimestamp(state_.wall);
  SetExpiry(state_.policy, record);
  SaveJob(state_, job, effects_);
  state_.capacity_changed = true;  // what it claimed
}

void JobMachine::AddEvent(JobEntry& job, const std::string& type, const std::string& reason,
                          const std::string& cause, const std::string& actor,
                          const std::string& detail) {
  v1::JobRecord& record = job.record;
  v1::JobEvent event = MakeEvent(state_, record, type, reason, actor);
  event.set_cause(cause);
  event.set_lost_steps(LostSteps(record, record.step()));
  *record.add_events() = event;
  if (record.events_size() > kMostEvents) {
    record.mutable_events()->DeleteSubrange(0, record.events_size() - kMostEvents);
  }
  event.set_detail(detail);  // long: not in the record, which is written often
  TellEvent(job, event, effects_);
}

// What nodes may still hold of a job must have its name for them.
void JobMachine::DeleteExpired() {
  if (state_.expiring.empty() || state_.expiring.begin()->first > state_.wall) return;
  std::set<std::string> held;
  for (const auto& [name, node] : state_.nodes.all()) {
    if (!node.met && !node.gone) return;  // it has yet to say what it holds
    for (const auto& [key, hold] : node.holds) held.insert(key.job);
  }
  std::vector<std::string> due;
  for (const auto& [seconds, name] : state_.expiring) {
    if (seconds > state_.wall || due.size() == kMostDeletions) break;
    if (!held.contains(name)) due.push_back(name);
  }
  for (const std::string& name : due) ForgetJob(state_, name, effects_);
}

void JobMachine::StopAll(const JobEntry& job, const std::string& reason, bool checkpoint) {
  for (const auto& [name, member] : job.run.members) {
    NodeEntry* node = state_.nodes.Find(name);
    if (node->holds.contains(job.key())) Stop(*node, job.key(), reason, checkpoint);
  }
}

void JobMachine::EndRestore() {
  if (state_.restored_until == 0 || state_.now < state_.restored_until) return;
  state_.restored_until = 0;
  state_.capacity_changed = true;
  for (auto& [name, job] : state_.jobs) DropClaims(job);
}

void JobMachine::Tick() {
  JudgeOwnConnection();
  EndRestore();
  for (auto& [name, node] : state_.nodes.all()) {
    const double silence = state_.SilenceOf(node);
    const bool lost = node.state == v1::Node::UNKNOWN ? LeaseIsOver(state_, node)
                                                      : silence > state_.timing.node_lost_seconds;
    node.gone |= LeaseIsOver(state_, node);
    const bool was_away = state_.IsAway(node);
    if (lost && node.state != v1::Node::LOST) {
      node.state = v1::Node::LOST;
      TellNode(state_, node, effects_);
    }
    if (state_.IsAway(node) != was_away) state_.cluster_changed = true;
    // Its trainers have ended themselves, and who comes back says first what it holds.
    if (node.session == 0 && !node.holds.empty() && LeaseIsOver(state_, node)) {
      node.holds.clear();
      state_.nodes.Touch(node);
    }
    for (auto& [key, hold] : node.holds) {
      if (hold.stop.has_value() && !hold.stop->checkpoint() && node.Usable() &&
          state_.now > hold.stop_sent_at + state_.timing.stop_seconds) {
        SendStop(node, hold);
      }
    }
  }
  const std::vector<std::string> live(state_.live.begin(), state_.live.end());
  for (const std::string& name : live) {
    JobEntry& job = state_.jobs.at(name);
    if (HasEpoch(job.record.state())) ReportSilentNodes(job);
    Reconcile(job);
    if (job.record.state() == v1::Job::RECOVERING && !job.claim_over &&
        state_.now > job.failed_at + state_.timing.lease_seconds) {
      job.claim_over = true;
      state_.capacity_changed = true;
    }
  }
  DeleteExpired();
  ForgetSilentNodes(state_, effects_);
}

}  // namespace strata::controller
