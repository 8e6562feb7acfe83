#include "client/views/policy_view.h"

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/terminal/table.h"

namespace strata::client {
namespace {

constexpr char kAllKinds[] = "*";

template <typename Counts>
Json CountsJson(const Counts& counts) {
  Json json = Json::object();
  for (const auto& [kind, devices] : std::map<std::string, int64_t>(counts.begin(), counts.end())) {
    json[kind] = devices;
  }
  return json;
}

void AddUsage(const v1::PolicyUsage& usage, Json& json) {
  json["used"] = CountsJson(usage.devices());
  json["active_jobs"] = usage.active_jobs();
  json["queued_jobs"] = usage.queued_jobs();
}

int64_t Total(const Json& counts) {
  int64_t total = 0;
  for (const auto& count : counts) total += count.get<int64_t>();
  return total;
}

// "h100 8/64, all 8/128": every kind that is used or has a quota.
std::string UsedOfQuota(const Json& used, const Json& quota) {
  std::set<std::string> kinds;
  for (const Json* counts : {&used, &quota}) {
    for (const auto& [kind, devices] : counts->items()) kinds.insert(kind);
  }
  const bool all = kinds.erase(kAllKinds) > 0;
  std::vector<std::string> parts;
  for (const std::string& kind : kinds) {
    parts.push_back(absl::StrCat(kind, " ", used.value(kind, int64_t{0})));
    if (quota.contains(kind)) absl::StrAppend(&parts.back(), "/", quota[kind].get<int64_t>());
  }
  if (all) {
    parts.push_back(absl::StrCat("all ", Total(used), "/", quota[kAllKinds].get<int64_t>()));
  }
  return parts.empty() ? "-" : absl::StrJoin(parts, ", ");
}

std::string Number(const Json& json, const char* key) {
  return absl::StrCat(json[key].get<int64_t>());
}

void AddDescription(const Json& entry, std::vector<std::string>& row) {
  const auto text = entry["description"].get<std::string>();
  if (!text.empty()) row.push_back(text);  // no spaces at a line's end
}

std::string Resource(const v1::PolicyChange& change) {
  return change.name().empty() ? change.kind() : absl::StrCat(change.kind(), "/", change.name());
}

std::string Action(const v1::PolicyChange& change) {
  return absl::AsciiStrToLower(v1::PolicyChange::Action_Name(change.action()));
}

Json ProjectJson(const v1::ProjectPolicy& project) {
  Json json = {{"name", project.name()},
               {"description", project.description()},
               {"quota", CountsJson(project.quota())}};
  if (project.has_max_queued_jobs()) json["max_queued_jobs"] = project.max_queued_jobs();
  if (project.has_max_priority()) json["max_priority"] = project.max_priority();
  if (project.has_max_spec_bytes()) json["max_spec_bytes"] = project.max_spec_bytes();
  if (project.has_max_streams()) json["max_streams"] = project.max_streams();
  if (project.has_max_calls_per_second()) {
    json["max_calls_per_second"] = project.max_calls_per_second();
  }
  if (!project.roots().empty()) {
    json["roots"] = std::vector<std::string>(project.roots().begin(), project.roots().end());
  }
  return json;
}

Json RolesJson(const v1::Policy& policy) {
  Json roles = Json::array();
  for (const v1::RoleBinding& binding : policy.roles()) {
    Json role = {
        {"role", binding.role()},
        {"members", std::vector<std::string>(binding.members().begin(), binding.members().end())}};
    if (binding.has_project()) role["project"] = binding.project();
    roles.push_back(std::move(role));
  }
  return roles;
}

Json TimingJson(const v1::TimingPolicy& timing) {
  return {{"heartbeat_seconds", timing.heartbeat_seconds()},
          {"node_lost_seconds", timing.node_lost_seconds()},
          {"lease_seconds", timing.lease_seconds()},
          {"orphan_seconds", timing.orphan_seconds()},
          {"prepare_seconds", timing.prepare_seconds()},
          {"refused_seconds", timing.refused_seconds()},
          {"stop_seconds", timing.stop_seconds()},
          {"cancel_seconds", timing.cancel_seconds()},
          {"suspect_seconds", timing.suspect_seconds()},
          {"hang_seconds", timing.hang_seconds()},
          {"phase_seconds", timing.phase_seconds()},
          {"storage_seconds", timing.storage_seconds()},
          {"storage_bytes_per_second", timing.storage_bytes_per_second()},
          {"forget_node_seconds", timing.forget_node_seconds()}};
}

// The entries of one list of PolicyJson with what is used of them.
template <typename Usages>
Json WithUsage(const Json& entries, const Usages& usages, const std::string& name) {
  std::map<std::string, const v1::PolicyUsage*> by_name;
  for (const v1::PolicyUsage& usage : usages) by_name[usage.name()] = &usage;
  Json list = Json::array();
  for (Json entry : entries) {
    const std::string its = entry["name"].template get<std::string>();
    if (!name.empty() && its != name) continue;
    const auto usage = by_name.find(its);
    AddUsage(usage == by_name.end() ? v1::PolicyUsage() : *usage->second, entry);
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

Json PolicyJson(const v1::Policy& policy) {
  Json projects = Json::array(), queues = Json::array();
  for (const v1::ProjectPolicy& project : policy.projects()) {
    projects.push_back(ProjectJson(project));
  }
  for (const v1::QueuePolicy& queue : policy.queues()) {
    queues.push_back({{"name", queue.name()},
                      {"description", queue.description()},
                      {"priority", queue.priority()},
                      {"max_devices", queue.max_devices()},
                      {"preemptible", queue.preemptible()}});
  }
  const v1::SchedulingPolicy& scheduling = policy.scheduling();
  Json decides = {{"min_run_seconds", scheduling.min_run_seconds()},
                  {"shrink_after_seconds", scheduling.shrink_after_seconds()},
                  {"unknown_run_seconds", scheduling.unknown_run_seconds()},
                  {"preemption_gap", scheduling.preemption_gap()},
                  {"defragment", scheduling.defragment()},
                  {"max_nodes", scheduling.max_nodes()}};
  if (scheduling.has_ttl_after_finished_seconds()) {
    decides["ttl_after_finished_seconds"] = scheduling.ttl_after_finished_seconds();
  }
  if (scheduling.has_buffer()) {
    const v1::BufferPolicy& buffer = scheduling.buffer();
    decides["buffer"] = {{"level", buffer.level()}};
    if (buffer.has_fraction()) {  // as in the file
      decides["buffer"]["nodes"] = absl::StrCat(100 * buffer.fraction(), "%");
    } else {
      decides["buffer"]["nodes"] = buffer.nodes();
    }
  }
  return {{"projects", projects},
          {"queues", queues},
          {"scheduling", decides},
          {"timing", TimingJson(policy.timing())},
          {"roles", RolesJson(policy)},
          {"revoked", std::vector<std::string>(policy.revoked().begin(), policy.revoked().end())}};
}

Json ProjectsJson(const v1::GetPolicyResponse& policy, const std::string& name) {
  return WithUsage(PolicyJson(policy.policy())["projects"], policy.projects(), name);
}

Json QueuesJson(const v1::GetPolicyResponse& policy, const std::string& name) {
  return WithUsage(PolicyJson(policy.policy())["queues"], policy.queues(), name);
}

std::string ProjectTable(const Json& projects) {
  std::vector<std::vector<std::string>> rows;
  for (const Json& project : projects) {
    rows.push_back({project["name"].get<std::string>(),
                    UsedOfQuota(project["used"], project["quota"]), Number(project, "active_jobs"),
                    Number(project, "queued_jobs")});
    AddDescription(project, rows.back());
  }
  return FormatTable({"NAME", "USED/QUOTA", "ACTIVE", "QUEUED", "DESCRIPTION"}, rows);
}

std::string QueueTable(const Json& queues) {
  std::vector<std::vector<std::string>> rows;
  for (const Json& queue : queues) {
    const int64_t most = queue["max_devices"].get<int64_t>();
    rows.push_back({queue["name"].get<std::string>(), Number(queue, "priority"),
                    absl::StrCat(Total(queue["used"]), most > 0 ? absl::StrCat("/", most) : ""),
                    Number(queue, "active_jobs"), Number(queue, "queued_jobs")});
    AddDescription(queue, rows.back());
  }
  return FormatTable({"NAME", "PRIORITY", "USED/MOST", "ACTIVE", "QUEUED", "DESCRIPTION"}, rows);
}

Json ToJson(const v1::ApplyPolicyResponse& applied) {
  Json changes = Json::array();
  for (const v1::PolicyChange& change : applied.changes()) {
    changes.push_back({{"kind", change.kind()},
                       {"name", change.name()},
                       {"change", Action(change)},
                       {"detail", change.detail()}});
  }
  return {{"policy", PolicyJson(applied.policy())}, {"changes", changes}};
}

std::string ChangesText(const v1::ApplyPolicyResponse& applied) {
  std::string text;
  for (const v1::PolicyChange& change : applied.changes()) {
    absl::StrAppend(&text, Resource(change), " ", Action(change),
                    change.detail().empty() ? "" : ": ", change.detail(), "\n");
  }
  return text;
}

}  // namespace strata::client
