#include "controller/logic/cluster_state.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "controller/logic/cluster_requests.h"
#include "controller/logic/job_events.h"
#include "controller/logic/job_shape.h"

namespace strata::controller {
namespace {

constexpr char kDeletionKey[] = "deletion_version";

// A job that is over may change still: its labels, or when it goes.
void IndexEnd(ClusterState& state, JobEntry& job) {
  const v1::JobRecord& record = job.record;
  if (job.finished_version == 0) {
    job.finished_version = record.resource_version();
    state.finished.insert({job.finished_version, record.name()});
  }
  state.expiring.erase({job.expires_at, record.name()});
  // What a user deleted is due whatever the clock says.
  const bool dated = record.has_expire_time() && !record.delete_requested();
  job.expires_at = dated ? SecondsOf(record.expire_time()) : 0;
  if (record.has_expire_time()) state.expiring.insert({job.expires_at, record.name()});
}

// Keeps the state's indices right after a change.
void Index(ClusterState& state, JobEntry& job) {
  const v1::JobRecord& record = job.record;
  if (IsTerminal(record.state())) {
    state.folders.Remove(record);
  } else if (!job.has_folders) {
    job.has_folders = true;
    state.folders.Add(record);
  }
  // What stays where it is is not touched: somebody may be on his way through an index.
  const std::pair place(record.created_version(), record.name());
  const bool queued = record.state() == v1::Job::QUEUED, over = IsTerminal(record.state());
  if (queued) {
    state.queue.try_emplace(place, &job);
  } else {
    state.queue.erase(place);
  }
  if (queued || over) {
    state.live.erase(record.name());
  } else {
    state.live.insert(record.name());
  }
  if (record.state() == v1::Job::RECOVERING) {
    state.recovering.insert(record.name());
  } else {
    state.recovering.erase(record.name());
  }
  state.changed_jobs.insert(record.name());
  if (over) IndexEnd(state, job);
}

// What its ranks held devices for until now; the record says when that was.
void CountRunTime(const ClusterState& state, JobEntry& job) {
  v1::JobRecord& record = job.record;
  if (job.holds_devices) *record.mutable_run_time() = ToDuration(RunSeconds(state, job));
  const bool was = std::exchange(job.holds_devices, HasEpoch(record.state()));
  job.counted_at = state.now;
  if (!job.holds_devices) job.unheard_seconds = 0;
  if (was || job.holds_devices) *record.mutable_run_time_as_of() = ToTimestamp(state.wall);
}

bool ReadNumber(const std::string& text, int64_t& number) {
  return absl::SimpleAtoi(text, &number) && number >= 0;
}

// As placed, all in this state.
EpochRun RunOf(ClusterState& state, const v1::JobRecord& record, MemberState member_state) {
  EpochRun run;
  run.begun_at = state.now;
  for (const v1::RankPlace& place : record.placement()) {
    Member& member = run.members[place.node()];
    member.ranks.push_back(place.rank());
    member.devices.push_back(place.device());
    member.state = member_state;
  }
  for (const auto& [name, member] : run.members) {
    state.nodes.Ensure(name).heard_at = state.ListeningNow();
  }
  return run;
}

// The epoch goes on as it was, as far as anybody knows: its agents will tell. Ranks that may have
// been told to start are not prepared a second time in the same epoch.
void RestoreEpoch(ClusterState& state, JobEntry& job) {
  const v1::JobRecord& record = job.record;
  const bool running = record.state() == v1::Job::RUNNING;
  const MemberState before = record.start_sent() ? MemberState::kPrepared : MemberState::kAsked;
  job.run = RunOf(state, record, running ? MemberState::kRunning : before);
  job.run.start_sent = running;
  for (const auto& [name, member] : job.run.members) {
    state.nodes.Ensure(name).holds[job.key()].devices = member.devices;
  }
  job.holds_devices = true;
  if (!record.has_run_time_as_of()) return;
  job.unheard_seconds = std::max(0.0, state.wall - SecondsOf(record.run_time_as_of()));
}

// It was given up for silence alone, and whoever comes back with its ranks may go on.
void RestoreGivenUp(ClusterState& state, JobEntry& job) {
  const v1::JobRecord& record = job.record;
  GivenUp& given_up = job.given_up.emplace();
  given_up.run = RunOf(state, record, MemberState::kRunning);
  given_up.run.start_sent = true;
  given_up.failure = {.reason = record.reason(), .cause = "node_lost", .silence = true};
  given_up.without_progress = record.restarts_before_silence();
}

bool RestoreJob(ClusterState& state, const Write& write) {
  v1::JobRecord record;
  if (!record.ParseFromString(write.value) || record.name() != write.key) return false;
  JobEntry& job = state.jobs[write.key];
  job.record = std::move(record);
  state.resource_version = std::max(state.resource_version, job.record.resource_version());
  // Records of before there was a scheduler have none.
  if (job.record.created_version() == 0) {
    job.record.set_created_version(job.record.resource_version());
  }
  job.shape = ShapeOf(job.record);
  const std::string request = RequestKey(job.record.owner(), job.record.request_id());
  if (!request.empty()) state.by_request[request] = write.key;
  Index(state, job);
  if (HasEpoch(job.record.state())) RestoreEpoch(state, job);
  if (job.record.has_restarts_before_silence()) RestoreGivenUp(state, job);
  job.failed_at = job.next_start_at = job.counted_at = state.now;
  job.culprit_known = true;
  return true;
}

bool RestoreNode(ClusterState& state, const Write& write) {
  v1::Node record;
  if (!record.ParseFromString(write.value) || record.name() != write.key) return false;
  NodeEntry& node = state.nodes.Ensure(write.key);
  node.kind = record.device();
  node.devices = record.devices();
  node.locality = {record.locality().begin(), record.locality().end()};
  node.version = record.version();
  node.build = record.build();
  node.resource_version = record.resource_version();
  node.drained = record.drained();
  node.drain_reason = record.drain_reason();
  node.host_memory = record.host_memory_bytes();
  node.device_memory = record.device_memory_bytes();
  node.quarantined = record.quarantined();
  node.quarantine_reason = record.quarantine_reason();
  for (int i = 0; i < record.failure_times_size(); ++i) {
    const google::protobuf::Timestamp& time = record.failure_times(i);
    // Records of earlier releases do not say whose.
    node.failures.push_back({static_cast<double>(time.seconds()) + 1e-9 * time.nanos(),
                             i < record.failure_jobs_size() ? record.failure_jobs(i) : ""});
  }
  node.heard_at = state.ListeningNow();
  if (record.has_last_heartbeat_time()) {
    node.heard_wall = SecondsOf(record.last_heartbeat_time());
    node.earlier_silence = std::max(0.0, state.wall - node.heard_wall);
    node.silence_written = true;
  }
  return true;
}

bool RestorePolicy(ClusterState& state, const Write& write) {
  v1::Policy policy;
  if (!policy.ParseFromString(write.value)) return false;
  UsePolicy(state, spec::CompletePolicy(std::move(policy)));
  return true;
}

bool RestoreIdentity(ClusterState& state, const Write& write) {
  return state.identity.ParseFromString(write.value) && !state.identity.cluster().empty() &&
         !state.identity.incarnation().empty();
}

bool RestoreMeta(ClusterState& state, const Write& write) {
  int64_t version = 0;
  if (write.key == kTermKey) return ReadNumber(write.value, state.term);
  if (write.key == kPolicyKey) return RestorePolicy(state, write);
  if (write.key == kIdentityKey) return RestoreIdentity(state, write);
  if (write.key == kDeletionKey) return ReadNumber(write.value, state.deletion_version);
  if (write.key != kVersionKey) return true;
  if (!ReadNumber(write.value, version)) return false;
  state.resource_version = std::max(state.resource_version, version);
  return true;
}

// What the cluster is without it.
const char* WithoutRecord(const Write& write) {
  if (write.table == "jobs") return "the job is forgotten and its ranks are stopped";
  if (write.table == "events") return "its job's list has a gap";
  if (write.table == "nodes") return "the node is neither drained nor in quarantine any more";
  if (write.table == RemovedNodes::kTable) return "the deleted node's old certificates are good";
  if (write.table == PlanFamilies::kTable) return "plans like it are predicted uncorrected";
  if (write.table == AuditTrail::kTable) return "nobody learns who did what it tells of";
  if (write.key == kPolicyKey) return "the default policy is in force";
  if (write.key == kIdentityKey) return "it is another cluster, which no agent of this one joins";
  return "agents and clients know later ones: give --restored with it";
}

absl::Status Unreadable(const std::vector<const Write*>& records) {
  constexpr size_t kMost = 16;
  std::string text =
      absl::StrCat(records.size(), " record(s) of the controller's store cannot be read:");
  for (size_t i = 0; i < std::min(records.size(), kMost); ++i) {
    absl::StrAppend(&text, "\n  ", records[i]->table, "/", records[i]->key, " (",
                    records[i]->value.size(), " bytes; without it ", WithoutRecord(*records[i]),
                    ")");
  }
  if (records.size() > kMost) absl::StrAppend(&text, "\n  ", records.size() - kMost, " more");
  return absl::DataLossError(
      absl::StrCat(text,
                   "\nput back a backup (and start with --restored), or start once with "
                   "--discard-record TABLE/KEY for each that may go"));
}

}  // namespace

JobEntry* ClusterState::Find(const std::string& job) {
  const auto found = jobs.find(job);
  return found == jobs.end() ? nullptr : &found->second;
}

std::string RequestKey(const std::string& owner, const std::string& request_id) {
  return request_id.empty() ? "" : absl::StrCat(owner, "\n", request_id);
}

double RunSeconds(const ClusterState& state, const JobEntry& job) {
  return SecondsOf(job.record.run_time()) +
         (job.holds_devices ? std::max(0.0, state.now - job.counted_at) : 0);
}

void CountUnheard(const ClusterState& state, JobEntry& job) {
  if (job.unheard_seconds == 0) return;
  v1::JobRecord& record = job.record;
  *record.mutable_run_time() = ToDuration(RunSeconds(state, job) + job.unheard_seconds);
  *record.mutable_run_time_as_of() = ToTimestamp(state.wall);
  job.counted_at = state.now;
  job.unheard_seconds = 0;
}

void SaveJob(ClusterState& state, JobEntry& job, Effects& effects) {
  CountRunTime(state, job);
  job.record.set_resource_version(++state.resource_version);
  if (job.record.created_version() == 0) {
    job.record.set_created_version(job.record.resource_version());
  }
  Index(state, job);
  effects.writes.push_back({"jobs", job.record.name(), job.record.SerializeAsString()});
  effects.changed.push_back(job.record);
}

void ForgetJob(ClusterState& state, const std::string& name, Effects& effects) {
  const JobEntry& job = state.jobs.at(name);
  state.finished.erase({job.finished_version, name});
  state.expiring.erase({job.expires_at, name});
  state.by_request.erase(RequestKey(job.record.owner(), job.record.request_id()));
  ForgetEvents(job, effects);
  v1::JobRecord& deleted = effects.deleted.emplace_back();
  deleted.set_name(name);
  deleted.set_uid(job.record.uid());
  deleted.mutable_spec()->set_project(job.record.spec().project());  // who may know of it
  deleted.set_resource_version(++state.resource_version);
  state.deletion_version = state.resource_version;
  state.jobs.erase(name);
  state.changed_jobs.insert(name);
  effects.writes.push_back({"jobs", name, "", true});
  effects.writes.push_back({"meta", kDeletionKey, absl::StrCat(state.deletion_version)});
}

void TellNode(ClusterState& state, NodeEntry& node, Effects& effects) {
  node.resource_version = ++state.resource_version;
  state.nodes.Touch(node);
  effects.nodes.push_back(ShowNode(node));
  effects.writes.push_back({"meta", kVersionKey, absl::StrCat(state.resource_version)});
}

void SaveNode(ClusterState& state, NodeEntry& node, Effects& effects) {
  TellNode(state, node, effects);
  v1::Node record;
  record.set_name(node.name);
  record.set_device(node.kind);
  record.set_devices(node.devices);
  record.mutable_locality()->insert(node.locality.begin(), node.locality.end());
  record.set_version(node.version);
  record.set_build(node.build);
  record.set_resource_version(node.resource_version);
  record.set_drained(node.drained);
  record.set_drain_reason(node.drain_reason);
  record.set_host_memory_bytes(node.host_memory);
  record.set_device_memory_bytes(node.device_memory);
  record.set_quarantined(node.quarantined);
  record.set_quarantine_reason(node.quarantine_reason);
  if (node.silence_written) {
    const double silence = state.SilenceOf(node) + node.earlier_silence;
    *record.mutable_last_heartbeat_time() = ToTimestamp(state.wall - silence);
  }
  AddFailures(node, record);
  effects.writes.push_back({"nodes", node.name, record.SerializeAsString()});
}

void AddFailures(const NodeEntry& node, v1::Node& record) {
  for (const NodeEntry::Blame& blame : node.failures) {
    *record.add_failure_times() = ToTimestamp(blame.wall);
    record.add_failure_jobs(blame.job);
  }
}

void UsePolicy(ClusterState& state, v1::Policy policy) {
  state.policy = std::move(policy);
  ++state.policies;
  state.timing = TimingOf(state.policy.timing());
}

void SavePolicy(const ClusterState& state, Effects& effects) {
  effects.writes.push_back({"meta", kPolicyKey, state.policy.SerializeAsString()});
}

void SaveVersion(const ClusterState& state, Effects& effects) {
  if (effects.writes.empty()) return;
  effects.writes.push_back({"meta", kVersionKey, absl::StrCat(state.resource_version)});
}

absl::Status Restore(ClusterState& state, const std::vector<Write>& records) {
  std::vector<const Write*> unreadable;
  for (const Write& write : records) {
    const bool read = write.table == "nodes"                ? RestoreNode(state, write)
                      : write.table == "meta"               ? RestoreMeta(state, write)
                      : write.table == AuditTrail::kTable   ? state.audit.Restore(write)
                      : write.table == PlanFamilies::kTable ? state.plan_families.Restore(write)
                      : write.table == RemovedNodes::kTable ? state.removed_nodes.Restore(write)
                                                            : state.join_tokens.Restore(write);
    if (!read) unreadable.push_back(&write);
  }
  // After the nodes, which they take devices of.
  for (const Write& write : records) {
    if (write.table == "jobs" && !RestoreJob(state, write)) unreadable.push_back(&write);
  }
  for (const Write& write : records) {
    if (write.table == "events" && !RestoreEvent(state, write)) unreadable.push_back(&write);
  }
  return unreadable.empty() ? absl::OkStatus() : Unreadable(unreadable);
}

// A controller that was restored may be elsewhere than before, and agents take their time to find
// it: before the first of them is there nothing can be said of the others.
void AwaitAgents(ClusterState& state) {
  const bool restored = std::any_of(state.jobs.begin(), state.jobs.end(), [](const auto& entry) {
    return entry.second.record.restored() && !IsTerminal(entry.second.record.state());
  });
  state.cut_off = restored;
  state.cut_off_since = state.now;
  state.restored_until =
      restored ? std::numeric_limits<double>::infinity() : state.now + state.timing.lease_seconds;
}

void NameStore(ClusterState& state, Effects& effects) {
  if (!state.identity.cluster().empty()) return;
  state.identity.set_cluster(common::DrawUuid(state.entropy));
  state.identity.set_incarnation(common::DrawUuid(state.entropy));
  effects.writes.push_back({"meta", kIdentityKey, state.identity.SerializeAsString()});
}

void Send(const ClusterState& state, const NodeEntry& node, v1::ControllerMessage message,
          Effects& effects) {
  if (node.session != 0) Send(node, Share(state, std::move(message)), effects);
}

SharedMessage Share(const ClusterState& state, v1::ControllerMessage message) {
  message.set_controller_term(state.term);
  return std::make_shared<const v1::ControllerMessage>(std::move(message));
}

void Send(const NodeEntry& node, const SharedMessage& message, Effects& effects) {
  if (node.session == 0) return;  // said again when the node is back
  effects.messages.push_back({node.name, node.incarnation, node.session, message});
}

google::protobuf::Timestamp ToTimestamp(double wall_seconds) {
  google::protobuf::Timestamp time;
  const double seconds = std::floor(wall_seconds);
  time.set_seconds(static_cast<int64_t>(seconds));
  time.set_nanos(static_cast<int32_t>((wall_seconds - seconds) * 1e9));
  return time;
}

google::protobuf::Duration ToDuration(double seconds) {
  google::protobuf::Duration duration;
  const double whole = std::floor(seconds);
  duration.set_seconds(static_cast<int64_t>(whole));
  duration.set_nanos(static_cast<int32_t>((seconds - whole) * 1e9));
  return duration;
}

}  // namespace strata::controller
