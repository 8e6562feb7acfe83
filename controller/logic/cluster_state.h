// All that the controller knows, and how it becomes durable.
#ifndef STRATA_CONTROLLER_LOGIC_CLUSTER_STATE_H_
#define STRATA_CONTROLLER_LOGIC_CLUSTER_STATE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/entropy.h"
#include "controller/logic/audit_trail.h"
#include "controller/logic/core.h"
#include "controller/logic/job_entry.h"
#include "controller/logic/job_folders.h"
#include "controller/logic/join_tokens.h"
#include "controller/logic/node_table.h"
#include "controller/logic/plan_families.h"
#include "controller/logic/removed_nodes.h"
#include "controller/logic/scheduler_state.h"
#include "controller/logic/timing.h"
#include "proto/strata/v1/policy.pb.h"
#include "spec/policy_defaults.h"
#include "topology/cluster.h"

namespace strata::controller {

// A queued job's reason while nothing keeps it from running but other jobs; users are shown the
// scheduler's words instead.
inline constexpr char kWaitsForDevices[] = "waits for devices";
inline constexpr char kControllerActor[] = "controller";  // of events

struct ClusterState {
  const common::Clock* clock = nullptr;  // of figures only: how long a decision took
  common::Entropy entropy;
  double now = 0;  // of the input being handled
  // Of `now`: how much passed while everybody was heard from (Core::OnHeard), in nobody's silence.
  double heard_seconds = 0;
  double wall = 0;  // for display
  double started_wall = 0;
  int64_t term = 0;
  v1::StoreIdentity identity;
  v1::ProtocolRange protocol;  // that this controller speaks with agents
  int64_t resource_version = 0;

  std::map<std::string, JobEntry> jobs;           // by jobs/NAME
  std::map<std::string, std::string> by_request;  // RequestKey -> jobs/NAME
  std::set<std::string> live;                     // STARTING, RUNNING, RECOVERING
  std::set<std::string> recovering;               // of these: RECOVERING
  // QUEUED, by age: (created version, name) -> the entry in `jobs`.
  std::map<std::pair<int64_t, std::string>, JobEntry*> queue;
  std::set<std::pair<int64_t, std::string>> finished;  // (resource_version of the end, name)
  // Over, and to be deleted: (wall seconds, name).
  std::set<std::pair<double, std::string>> expiring;
  int64_t deletion_version = 0;        // of the last deletion of a job
  std::set<std::string> changed_jobs;  // since the last snapshot: jobs/NAME
  JobFolders folders;                  // of jobs that are not over
  NodeTable nodes;
  JoinTokens join_tokens;
  RemovedNodes removed_nodes;
  // The levels and links that the cluster was described with, without nodes; see cluster_map.h.
  topology::Description map;
  v1::Policy policy = spec::CompletePolicy({});  // complete; durable; see UsePolicy
  int64_t policies = 0;                          // so many were used
  Timing timing = TimingOf(policy.timing());
  // A device has become free, a node usable, or the policy another: jobs that wait are looked at
  // again.
  bool capacity_changed = false;
  // A node counts or no longer counts as one of the cluster: what could run at all has changed.
  bool cluster_changed = false;
  // Most nodes fell silent together: rather the controller is cut off than they are lost. While it
  // lasts no lease is judged to be over.
  bool cut_off = false;
  double cut_off_since = 0;
  std::map<std::string, std::string> builds;  // chosen, by kind of device
  // Agents that hold ranks of jobs of before this start have come back by then; 0: it is over.
  double restored_until = 0;
  SchedulerState scheduler;
  AuditTrail audit;
  PlanFamilies plan_families;

  // Its record came from a backup, and its ranks may yet be found: it is neither started nor given
  // up.
  bool IsAwaited(const JobEntry& job) const {
    return job.record.restored() && !job.found && now < restored_until;
  }

  // Known from before this controller's start, and not heard from since, for longer than its lease:
  // it is no longer one of the cluster's nodes until it is back.
  bool IsAway(const NodeEntry& node) const { return !node.met && node.state == v1::Node::LOST; }

  // Nodes' silence is counted on a clock of its own, which stands while all are heard from.
  double ListeningNow() const { return now - heard_seconds; }
  double SilenceOf(const NodeEntry& node) const { return ListeningNow() - node.heard_at; }
  // Of the time since its lease last began anew.
  double LeaseUsed(const NodeEntry& node) const {
    return ListeningNow() - std::max(node.heard_at, node.lease_from);
  }

  JobEntry* Find(const std::string& job);
};

// What tells a user's request from others: request_ids are each user's own. Empty without one.
std::string RequestKey(const std::string& owner, const std::string& request_id);
// Gives the record a new version, writes it, tells watchers, and keeps the indices above right.
void SaveJob(ClusterState& state, JobEntry& job, Effects& effects);
// For how long its ranks have held devices, all starts together.
double RunSeconds(const ClusterState& state, const JobEntry& job);
// Ranks of it live that did so before this controller's start: they held devices in between.
void CountUnheard(const ClusterState& state, JobEntry& job);
// Removes a finished job, tells watchers.
void ForgetJob(ClusterState& state, const std::string& name, Effects& effects);
void SaveNode(ClusterState& state, NodeEntry& node, Effects& effects);
// Tells watchers what changed, of which nothing but the new version is kept: its state.
void TellNode(ClusterState& state, NodeEntry& node, Effects& effects);
// What the node was to blame for, as its record says it.
void AddFailures(const NodeEntry& node, v1::Node& record);
// `policy`: complete.
void UsePolicy(ClusterState& state, v1::Policy policy);
void SavePolicy(const ClusterState& state, Effects& effects);
// To be called once after each input: the version counter survives with what used it.
void SaveVersion(const ClusterState& state, Effects& effects);

// Keys of the table "meta".
inline constexpr char kTermKey[] = "controller_term";
inline constexpr char kVersionKey[] = "resource_version";
inline constexpr char kPolicyKey[] = "policy";
inline constexpr char kIdentityKey[] = "identity";

// Fills an empty state from the store, as of `state.now`, with the term before. DataLoss: see
// Core::Load.
absl::Status Restore(ClusterState& state, const std::vector<Write>& records);
// After Restore: from when on agents are expected to have come back.
void AwaitAgents(ClusterState& state);
// Gives a store that has none its identity: the first start of a cluster.
void NameStore(ClusterState& state, Effects& effects);

void Send(const ClusterState& state, const NodeEntry& node, v1::ControllerMessage message,
          Effects& effects);
// The same to many nodes: made once. To be sent in this controller's term.
using SharedMessage = std::shared_ptr<const v1::ControllerMessage>;
SharedMessage Share(const ClusterState& state, v1::ControllerMessage message);
void Send(const NodeEntry& node, const SharedMessage& message, Effects& effects);

google::protobuf::Timestamp ToTimestamp(double wall_seconds);
google::protobuf::Duration ToDuration(double seconds);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_CLUSTER_STATE_H_
