#include "controller/logic/job_updates.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "controller/logic/buffer.h"
#include "controller/logic/cluster_requests.h"
#include "controller/logic/job_events.h"
#include "controller/logic/job_requests.h"
#include "controller/logic/names.h"
#include "controller/logic/project_limits.h"
#include "controller/logic/refusal.h"
#include "controller/logic/scheduler_view.h"
#include "spec/scalars.h"

namespace strata::controller {
namespace {

constexpr int64_t kMostDurationSeconds = int64_t{36525} * 24 * 3600;

absl::Status Precondition(const std::string& reason, const std::string& message) {
  return Refusal(absl::StatusCode::kFailedPrecondition, reason, message);
}

absl::Status JobOver(const v1::JobRecord& record, absl::string_view what) {
  return Precondition("JOB_OVER", absl::StrCat("job ", ShortName(record.name()), " is over (",
                                               v1::Job::State_Name(record.state()), "): ", what));
}

absl::Status BeingCancelled(const v1::JobRecord& record) {
  return Precondition("JOB_OVER",
                      absl::StrCat("job ", ShortName(record.name()), " is being cancelled"));
}

absl::Status OutOfTime(const v1::JobRecord& record) {
  return Precondition("BEING_STOPPED", absl::StrCat("job ", ShortName(record.name()),
                                                    " is out of time and being stopped"));
}

std::string TimeText(bool known, const google::protobuf::Duration& duration) {
  return known ? spec::DurationText(absl::Seconds(SecondsOf(duration))) : "none";
}

std::string LabelsText(const v1::JobSpec& spec) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : spec.labels()) parts.push_back(absl::StrCat(key, "=", value));
  std::sort(parts.begin(), parts.end());
  return parts.empty() ? "none" : absl::StrJoin(parts, ",");
}

// Of the queue's jobs that have devices.
int64_t DevicesOf(const ClusterState& state, const std::string& queue) {
  int64_t devices = 0;
  for (const std::string& name : state.live) {
    const v1::JobRecord& record = state.jobs.at(name).record;
    if (QueueOf(record.spec()) == queue) devices += record.placement_size();
  }
  return devices;
}

// A job takes the devices that it has along to another queue, as far as that one could have given
// them to it.
absl::Status CheckQueueOfDevices(ClusterState& state, const JobEntry& job,
                                 const std::string& queue) {
  const auto& queues = state.policy.queues();
  const auto found = std::find_if(queues.begin(), queues.end(),
                                  [&](const auto& each) { return each.name() == queue; });
  const int64_t own = job.record.placement_size();
  if (found == queues.end() || own == 0) return absl::OkStatus();
  const std::string name = ShortName(job.record.name());
  const std::string advice =
      absl::StrCat("suspend it first (strata suspend ", name, "), then it waits there for others");
  const int64_t used = DevicesOf(state, queue);
  if (found->max_devices() > 0 && used + own > found->max_devices()) {
    return Precondition("QUEUE_LIMIT",
                        absl::StrCat("queue ", queue, " may use ", found->max_devices(),
                                     " devices (max_devices), its jobs have ", used, ", and job ",
                                     name, " has ", own, ": ", advice));
  }
  const bool may_borrow = found->preemptible() || job.record.spec().resources().preemptible();
  if (may_borrow || !RunsPreemptibly(state, job)) return absl::OkStatus();
  RefreshCluster(state);
  const BufferState buffer = BufferNow(state);
  for (const v1::RankPlace& place : job.record.placement()) {
    if (!buffer.lent.contains(place.node())) continue;
    return Precondition("BUFFER", absl::StrCat("job ", name, " has ", ShortName(place.node()),
                                               " of the buffer, which jobs of queue ", queue,
                                               " may not borrow (preemptible): ", advice));
  }
  return absl::OkStatus();
}

// One request's changes: collected, then made.
class Update {
 public:
  Update(ClusterState& state, JobEntry& job, const v1::Job& asked)
      : state_(state), job_(job), asked_(asked), changed_(job.record) {}

  absl::Status Apply(const std::string& path) {
    if (path == "spec.labels") return Labels();
    if (path == "ttl_after_finished") return Ttl();
    if (IsTerminal(changed_.state())) return JobOver(changed_, path + " changes nothing any more");
    if (changed_.cancel_requested()) return BeingCancelled(changed_);
    if (path == "spec.resources.priority") return Priority();
    if (path == "spec.resources.queue") return Queue();
    if (path == "spec.train.steps") return Steps();
    if (path == "spec.time_limit") return TimeLimit();
    return InvalidField("update_mask",
                        absl::StrCat(path,
                                     " cannot be changed — spec.resources.priority, "
                                     "spec.resources.queue, spec.train.steps, spec.labels, "
                                     "spec.time_limit and ttl_after_finished can"));
  }

  const v1::JobRecord& changed() const { return changed_; }
  // "priority 0 -> 5"; empty: everything was so already.
  std::string text() const { return absl::StrJoin(texts_, ", "); }
  bool restarts() const { return restarts_; }

 private:
  template <typename Value>
  void Tell(absl::string_view what, const Value& before, const Value& after) {
    if (before != after) texts_.push_back(absl::StrCat(what, " ", before, " -> ", after));
  }

  absl::Status Labels() {
    const std::string before = LabelsText(changed_.spec());
    *changed_.mutable_spec()->mutable_labels() = asked_.spec().labels();
    Tell("labels", before, LabelsText(changed_.spec()));
    return absl::OkStatus();
  }

  absl::Status Ttl() {
    RETURN_IF_ERROR(CheckDuration("ttl_after_finished", asked_.ttl_after_finished()));
    const std::string before =
        TimeText(changed_.has_ttl_after_finished(), changed_.ttl_after_finished());
    changed_.clear_ttl_after_finished();
    if (asked_.has_ttl_after_finished()) {
      *changed_.mutable_ttl_after_finished() = asked_.ttl_after_finished();
    }
    Tell("ttl_after_finished", before,
         TimeText(asked_.has_ttl_after_finished(), asked_.ttl_after_finished()));
    if (IsTerminal(changed_.state())) SetExpiry(state_.policy, changed_);
    return absl::OkStatus();
  }

  absl::Status Priority() {
    v1::ResourcesSpec& resources = *changed_.mutable_spec()->mutable_resources();
    Tell("priority", resources.priority(), asked_.spec().resources().priority());
    resources.set_priority(asked_.spec().resources().priority());
    return absl::OkStatus();
  }

  absl::Status Queue() {
    const std::string before = QueueOf(changed_.spec());
    changed_.mutable_spec()->mutable_resources()->set_queue(asked_.spec().resources().queue());
    RETURN_IF_ERROR(CheckProjectAndQueue(state_.policy, changed_.spec()));
    const std::string after = QueueOf(changed_.spec());
    if (after != before) RETURN_IF_ERROR(CheckQueueOfDevices(state_, job_, after));
    Tell("queue", before, after);
    return absl::OkStatus();
  }

  absl::Status Steps() {
    const int64_t steps = asked_.spec().train().steps();
    if (steps == changed_.spec().train().steps()) return absl::OkStatus();
    const int64_t done = std::max(changed_.step(), changed_.checkpoint().step());
    if (steps <= done) {
      return Precondition("STEPS_DONE",
                          absl::StrCat("step ", done, " of job ", ShortName(changed_.name()),
                                       " is done: its steps can be ", done + 1,
                                       " or more, or it can be cancelled"));
    }
    if (job_.run.stop_asked_at.has_value() && !changed_.has_preemption()) {
      return Precondition("BEING_STOPPED",
                          absl::StrCat("job ", ShortName(changed_.name()), " is being stopped"));
    }
    Tell("steps", changed_.spec().train().steps(), steps);
    changed_.mutable_spec()->mutable_train()->set_steps(steps);
    changed_.mutable_spec()->mutable_train()->clear_epochs();  // they no longer say how many
    changed_.set_target_step(steps);
    restarts_ = HasEpoch(changed_.state());
    return absl::OkStatus();
  }

  absl::Status TimeLimit() {
    const bool limited = asked_.spec().has_time_limit();
    const google::protobuf::Duration& limit = asked_.spec().time_limit();
    const double used = RunSeconds(state_, job_);
    if (limited && SecondsOf(limit) <= used) {
      return Precondition("TIME_USED",
                          absl::StrCat("job ", ShortName(changed_.name()), " has held devices for ",
                                       static_cast<int64_t>(used),
                                       " s already: give it more, or cancel it (strata cancel)"));
    }
    if (job_.run.stop_asked_at.has_value() && !changed_.has_preemption()) {
      return OutOfTime(changed_);
    }
    const std::string before =
        TimeText(changed_.spec().has_time_limit(), changed_.spec().time_limit());
    changed_.mutable_spec()->clear_time_limit();
    if (limited) *changed_.mutable_spec()->mutable_time_limit() = limit;
    Tell("time_limit", before, TimeText(limited, limit));
    return absl::OkStatus();
  }

  ClusterState& state_;
  JobEntry& job_;
  const v1::Job& asked_;
  v1::JobRecord changed_;
  std::vector<std::string> texts_;
  bool restarts_ = false;
};

// It would end as soon as it began.
absl::Status CheckTimeLeft(const ClusterState& state, const JobEntry& job) {
  const v1::JobRecord& record = job.record;
  const double used = RunSeconds(state, job);
  if (!record.spec().has_time_limit() || used < SecondsOf(record.spec().time_limit())) {
    return absl::OkStatus();
  }
  return Precondition("TIME_USED",
                      absl::StrCat("job ", ShortName(record.name()), " has held devices for ",
                                   static_cast<int64_t>(used), " s, and its time_limit is ",
                                   TimeText(true, record.spec().time_limit()),
                                   ": give it more (strata update --time-limit), then resume it"));
}

void Finish(ClusterState& state, JobEntry& job, const std::string& type, const std::string& what,
            const std::string& actor, Effects& effects) {
  TellEvent(job, MakeEvent(state, job.record, type, what, actor), effects);
  SaveJob(state, job, effects);
  state.capacity_changed = true;  // who waits, and behind whom, may be another
}

}  // namespace

absl::Status CheckDuration(const std::string& field, const google::protobuf::Duration& duration) {
  if (duration.seconds() < 0 || duration.nanos() < 0 || duration.nanos() > 999'999'999) {
    return InvalidField(field, "is negative, or no duration");
  }
  if (duration.seconds() <= kMostDurationSeconds) return absl::OkStatus();
  return InvalidField(field, "is longer than 100 years");
}

void SetExpiry(const v1::Policy& policy, v1::JobRecord& record) {
  std::optional<double> seconds;
  if (policy.scheduling().has_ttl_after_finished_seconds()) {
    seconds = policy.scheduling().ttl_after_finished_seconds();
  }
  if (record.has_ttl_after_finished()) seconds = SecondsOf(record.ttl_after_finished());
  if (record.delete_requested()) seconds = 0;
  record.clear_expire_time();
  if (!seconds.has_value()) return;
  *record.mutable_expire_time() = ToTimestamp(SecondsOf(record.end_time()) + *seconds);
}

void RenewExpiries(ClusterState& state, Effects& effects) {
  for (const auto& [version, name] : state.finished) {
    JobEntry& job = state.jobs.at(name);
    const v1::JobRecord& record = job.record;
    const double before = record.has_expire_time() ? SecondsOf(record.expire_time()) : -1;
    SetExpiry(state.policy, job.record);
    const double after = record.has_expire_time() ? SecondsOf(record.expire_time()) : -1;
    if (after != before) SaveJob(state, job, effects);
  }
}

absl::StatusOr<v1::JobRecord> UpdateJob(ClusterState& state, JobMachine& machine,
                                        const v1::UpdateJobRequest& request,
                                        const std::string& actor, Effects& effects) {
  JobEntry* job = state.Find(request.job().name());
  if (job == nullptr) return NoSuchJob(request.job().name());
  RETURN_IF_ERROR(CheckEtag(request.job().etag(), job->record));
  if (request.update_mask().paths().empty()) {
    return InvalidField("update_mask", "names nothing — such as spec.resources.priority");
  }
  Update update(state, *job, request.job());
  for (const std::string& path : request.update_mask().paths()) {
    RETURN_IF_ERROR(update.Apply(path));
  }
  if (!IsTerminal(job->record.state())) {
    RETURN_IF_ERROR(CheckSpecLimits(state.policy, update.changed().spec()));
  }
  if (request.validate_only() || update.text().empty()) return update.changed();
  job->record = update.changed();
  Finish(state, *job, "UPDATED", update.text(), actor, effects);
  if (update.restarts()) machine.StopForItself(*job, kOtherSteps);
  machine.Reconcile(*job);
  return job->record;
}

absl::StatusOr<v1::JobRecord> SuspendJob(ClusterState& state, JobMachine& machine,
                                         const v1::SuspendJobRequest& request,
                                         const std::string& actor, Effects& effects) {
  JobEntry* job = state.Find(request.name());
  if (job == nullptr) return NoSuchJob(request.name());
  v1::JobRecord& record = job->record;
  RETURN_IF_ERROR(CheckEtag(request.etag(), record));
  if (IsTerminal(record.state())) return JobOver(record, "it cannot be suspended");
  if (record.cancel_requested()) return BeingCancelled(record);
  if (record.suspended()) return record;
  if (machine.IsToEnd(*job)) return OutOfTime(record);
  record.set_suspended(true);
  if (record.state() == v1::Job::QUEUED) {
    record.clear_preemption();
    record.set_reason(kSuspended);
  }
  Finish(state, *job, "SUSPENDED", "", actor, effects);
  machine.StopForItself(*job, kSuspended);
  machine.Reconcile(*job);
  return record;
}

absl::StatusOr<v1::JobRecord> ResumeJob(ClusterState& state, const v1::ResumeJobRequest& request,
                                        const std::string& actor, Effects& effects) {
  JobEntry* job = state.Find(request.name());
  if (job == nullptr) return NoSuchJob(request.name());
  v1::JobRecord& record = job->record;
  RETURN_IF_ERROR(CheckEtag(request.etag(), record));
  if (IsTerminal(record.state())) return JobOver(record, "it cannot be resumed");
  if (!record.suspended()) return record;
  RETURN_IF_ERROR(CheckTimeLeft(state, *job));
  record.set_suspended(false);
  if (record.state() == v1::Job::QUEUED) {
    record.set_reason(kWaitsForDevices);
    state.scheduler.retell = true;
  }
  Finish(state, *job, "RESUMED", "", actor, effects);
  return record;
}

absl::Status DeleteJob(ClusterState& state, JobMachine& machine,
                       const v1::DeleteJobRequest& request, const std::string& actor,
                       Effects& effects) {
  JobEntry* job = state.Find(request.name());
  if (job == nullptr) return NoSuchJob(request.name());
  v1::JobRecord& record = job->record;
  RETURN_IF_ERROR(CheckEtag(request.etag(), record));
  const bool over = IsTerminal(record.state());
  if (!over && !request.force()) {
    return Precondition("JOB_NOT_OVER", absl::StrCat("job ", ShortName(record.name()), " is ",
                                                     v1::Job::State_Name(record.state()),
                                                     ": cancel it first, or force its deletion"));
  }
  record.set_delete_requested(true);
  if (over) {
    SetExpiry(state.policy, record);
    SaveJob(state, *job, effects);
    machine.DeleteExpired();
    return absl::OkStatus();
  }
  v1::CancelJobRequest cancel;
  cancel.set_name(record.name());
  cancel.set_reason("deleted");
  SaveJob(state, *job, effects);
  RETURN_IF_ERROR(CancelJob(state, machine, cancel, actor, effects).status());
  machine.DeleteExpired();  // it may be over already
  return absl::OkStatus();
}

}  // namespace strata::controller
