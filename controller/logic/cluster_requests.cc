#include "controller/logic/cluster_requests.h"

#include <google/protobuf/util/message_differencer.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "controller/logic/buffer.h"
#include "controller/logic/names.h"
#include "controller/logic/node_removal.h"
#include "controller/logic/policy_changes.h"
#include "controller/logic/refusal.h"
#include "controller/logic/scheduler_view.h"

namespace strata::controller {
namespace {

using google::protobuf::util::MessageDifferencer;

using Chosen = std::string (*)(const v1::JobSpec&);  // ProjectOf or QueueOf

template <typename Entries>
std::vector<std::string> NamesOf(const Entries& entries) {
  std::vector<std::string> names;
  for (const auto& entry : entries) names.push_back(entry.name());
  return names;
}

template <typename Entries>
absl::Status CheckKnown(const Entries& entries, const std::string& kind, const std::string& field,
                        const std::string& name) {
  const std::vector<std::string> known = NamesOf(entries);
  for (const std::string& one : known) {
    if (one == name) return absl::OkStatus();
  }
  return InvalidField(field,
                      absl::StrCat("there is no ", kind, " ", name, " — the ", kind, "s here are ",
                                   absl::StrJoin(known, ", "), "; strata apply declares others"));
}

// Refused while it has jobs that are not over.
template <typename Entries>
absl::Status CheckUnused(const ClusterState& state, const Entries& kept, const std::string& kind,
                         Chosen chosen) {
  constexpr size_t kNamed = 8;
  const std::vector<std::string> names = NamesOf(kept);
  const std::set<std::string> known(names.begin(), names.end());
  std::map<std::string, std::vector<std::string>> jobs;  // by what would go
  for (const auto& [name, job] : state.jobs) {
    if (IsTerminal(job.record.state())) continue;
    const std::string of = chosen(job.record.spec());
    if (!known.contains(of)) jobs[of].push_back(ShortName(name));
  }
  if (jobs.empty()) return absl::OkStatus();
  std::vector<std::string> parts;
  for (auto& [name, its] : jobs) {
    const size_t more = its.size() > kNamed ? its.size() - kNamed : 0;
    its.resize(its.size() - more);
    if (more > 0) its.push_back(absl::StrCat(more, " more"));
    parts.push_back(
        absl::StrCat(kind, " ", name, " has jobs that are not over: ", absl::StrJoin(its, ", ")));
  }
  return Refusal(absl::StatusCode::kFailedPrecondition, "IN_USE",
                 absl::StrCat(absl::StrJoin(parts, "; "),
                              " — keep it in the file, or wait for them or cancel them"));
}

// To all agents that are there; the others hear it when they are welcomed.
void TellTiming(const ClusterState& state, Effects& effects) {
  v1::ControllerMessage message;
  *message.mutable_timing()->mutable_timing() = state.policy.timing();
  const SharedMessage shared = Share(state, std::move(message));
  for (const auto& [name, node] : state.nodes.all()) Send(node, shared, effects);
}

std::string OrDefault(const std::string& name) { return name.empty() ? spec::kDefaultName : name; }

std::string EtagOf(const NodeEntry& node) {
  return absl::StrCat("\"", node.resource_version, "\"");
}

absl::StatusOr<NodeEntry*> FindNode(ClusterState& state, const std::string& name,
                                    const std::string& etag) {
  NodeEntry* node = state.nodes.Find(NodeName(name));
  if (node == nullptr) {
    return Refusal(absl::StatusCode::kNotFound, "NODE_NOT_FOUND",
                   absl::StrCat("there is no node ", ShortName(name)));
  }
  if (etag.empty() || etag == EtagOf(*node)) return node;
  return Refusal(absl::StatusCode::kAborted, "ETAG_MISMATCH",
                 absl::StrCat("node ", ShortName(name), " has changed since (its etag is ",
                              EtagOf(*node), "): look at it again, then repeat the request"));
}

absl::Status CheckDrainReason(const std::string& reason) {
  constexpr size_t kMostReasonBytes = 500;
  if (reason.size() <= kMostReasonBytes) return absl::OkStatus();
  return InvalidField("reason", absl::StrCat("at most ", kMostReasonBytes, " bytes"));
}

void SetDrained(ClusterState& state, NodeEntry& node, const std::string& reason, Effects& effects) {
  const bool told = reason.empty() || reason == node.drain_reason;
  if (node.drained && told) return;
  node.drained = true;
  if (!reason.empty()) node.drain_reason = reason;
  state.capacity_changed = true;
  SaveNode(state, node, effects);
}

}  // namespace

std::string ProjectOf(const v1::JobSpec& spec) { return OrDefault(spec.project()); }
std::string QueueOf(const v1::JobSpec& spec) { return OrDefault(spec.resources().queue()); }

absl::Status CheckProjectAndQueue(const v1::Policy& policy, const v1::JobSpec& spec) {
  RETURN_IF_ERROR(CheckKnown(policy.projects(), "project", "project", ProjectOf(spec)));
  return CheckKnown(policy.queues(), "queue", "resources.queue", QueueOf(spec));
}

absl::StatusOr<v1::ApplyPolicyResponse> ApplyPolicy(ClusterState& state,
                                                    const v1::ApplyPolicyRequest& request,
                                                    Effects& effects) {
  v1::ApplyPolicyResponse response;
  v1::Policy& policy = *response.mutable_policy() = spec::CompletePolicy(request.policy());
  RETURN_IF_ERROR(CheckUnused(state, policy.projects(), "project", &ProjectOf));
  RETURN_IF_ERROR(CheckUnused(state, policy.queues(), "queue", &QueueOf));
  RETURN_IF_ERROR(CheckBufferLevel(state, policy));
  bool changed = false;
  for (v1::PolicyChange& change : ChangesBetween(state.policy, policy)) {
    changed |= change.action() != v1::PolicyChange::UNCHANGED;
    *response.add_changes() = std::move(change);
  }
  if (request.validate_only() || !changed) return response;
  const v1::TimingPolicy before = state.policy.timing();
  UsePolicy(state, policy);
  state.capacity_changed = true;
  if (!MessageDifferencer::Equals(before, policy.timing())) TellTiming(state, effects);
  SavePolicy(state, effects);
  return response;
}

absl::StatusOr<v1::Node> DrainNode(ClusterState& state, const v1::DrainNodeRequest& request,
                                   Effects& effects) {
  RETURN_IF_ERROR(CheckDrainReason(request.reason()));
  ASSIGN_OR_RETURN(NodeEntry * node, FindNode(state, request.name(), request.etag()));
  SetDrained(state, *node, request.reason(), effects);
  return ShowNode(*node);
}

absl::StatusOr<v1::DrainNodesResponse> DrainNodes(ClusterState& state,
                                                  const v1::DrainNodesRequest& request,
                                                  Effects& effects) {
  RETURN_IF_ERROR(CheckDrainReason(request.reason()));
  std::vector<NodeEntry*> nodes;
  for (const std::string& name : request.names()) {
    ASSIGN_OR_RETURN(nodes.emplace_back(), FindNode(state, name, /*etag=*/""));
  }
  v1::DrainNodesResponse response;
  for (NodeEntry* node : nodes) {
    SetDrained(state, *node, request.reason(), effects);
    *response.add_nodes() = ShowNode(*node);
  }
  return response;
}

absl::StatusOr<v1::Node> ResumeNode(ClusterState& state, const v1::ResumeNodeRequest& request,
                                    Effects& effects) {
  ASSIGN_OR_RETURN(NodeEntry * node, FindNode(state, request.name(), request.etag()));
  if (!node->drained && !node->quarantined) return ShowNode(*node);
  node->drained = node->quarantined = false;
  node->drain_reason.clear();
  node->quarantine_reason.clear();
  state.capacity_changed = true;
  SaveNode(state, *node, effects);
  return ShowNode(*node);
}

absl::Status DeleteNode(ClusterState& state, const v1::DeleteNodeRequest& request,
                        Effects& effects) {
  ASSIGN_OR_RETURN(NodeEntry * node, FindNode(state, request.name(), request.etag()));
  if (const std::string use = UseOf(state, *node); !use.empty()) {
    return Refusal(absl::StatusCode::kFailedPrecondition, "NODE_IN_USE",
                   absl::StrCat("node ", ShortName(node->name), " ", use));
  }
  state.removed_nodes.Add(node->name, state.wall, effects);
  EraseNodes(state, {node->name}, effects);
  return absl::OkStatus();
}

v1::Node ShowNode(const NodeEntry& node) {
  v1::Node shown;
  shown.set_name(node.name);
  shown.set_state(node.state);
  shown.set_device(node.kind);
  shown.set_devices(node.devices);
  shown.set_free(node.TakesRanks() ? static_cast<int32_t>(node.FreeDevices().size()) : 0);
  shown.mutable_locality()->insert(node.locality.begin(), node.locality.end());
  shown.set_version(node.version);
  shown.set_build(node.build);
  shown.set_incarnation(node.incarnation);
  if (node.heard_wall > 0) *shown.mutable_last_heartbeat_time() = ToTimestamp(node.heard_wall);
  for (const auto& [key, hold] : node.holds) {
    if (shown.jobs_size() == 0 || shown.jobs(shown.jobs_size() - 1) != key.job) {
      shown.add_jobs(key.job);
    }
  }
  shown.set_resource_version(node.resource_version);
  shown.set_etag(EtagOf(node));
  shown.set_host_memory_bytes(node.host_memory);
  shown.set_device_memory_bytes(node.device_memory);
  shown.set_drained(node.drained);
  shown.set_drain_reason(node.drain_reason);
  shown.set_leaving(node.leaving);
  shown.set_quarantined(node.quarantined);
  shown.set_quarantine_reason(node.quarantine_reason);
  shown.mutable_unhealthy_devices()->insert(node.unhealthy.begin(), node.unhealthy.end());
  AddFailures(node, shown);
  return shown;
}

}  // namespace strata::controller
