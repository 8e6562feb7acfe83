#include "controller/service/streams/watch_hub.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/logic/job_record.h"
#include "controller/logic/names.h"
#include "controller/logic/refusal.h"

namespace strata::controller {
namespace {

// Changes and deletions, each in order, as one list in order.
template <typename Response>
void PublishInOrder(std::vector<std::shared_ptr<Response>> changes, const auto& publish) {
  std::stable_sort(changes.begin(), changes.end(), [](const auto& a, const auto& b) {
    return a->resource_version() < b->resource_version();
  });
  for (auto& change : changes) publish(std::move(change));
}

absl::Status ShuttingDown() { return absl::UnavailableError("the controller is shutting down"); }

}  // namespace

bool WatchHub::MissedSome(const Core& core, const std::string& name, int64_t version) const {
  if (version > core.resource_version()) return true;  // of another database
  if (hub_.Keeps(version)) return false;
  // Older than what is kept; but perhaps nothing has happened since.
  if (core.deletion_version() > version) return true;
  if (!name.empty()) return core.FindJob(name)->resource_version() > version;
  const std::vector<const v1::JobRecord*> jobs = core.Jobs();
  return std::any_of(jobs.begin(), jobs.end(),
                     [&](const v1::JobRecord* job) { return job->resource_version() > version; });
}

void WatchHub::Subscribe(const Core& core, const std::string& name, int64_t version,
                         Watcher watcher, Sees sees) {
  if (hub_.IsFull()) return watcher->End(hub_.TooManyWatch());
  if (!name.empty() && core.FindJob(name) == nullptr) {
    return watcher->End(Refusal(absl::StatusCode::kNotFound, "JOB_NOT_FOUND",
                                absl::StrCat("there is no job ", ShortName(name))));
  }
  if (MissedSome(core, name, version)) {
    return watcher->End(hub_.NotKept(version, core.resource_version()));
  }
  hub_.Add(
      [name, sees = std::move(sees)](const v1::WatchJobsResponse& change) {
        return (name.empty() || name == change.job().name()) && sees(change.job());
      },
      version, std::move(watcher));
}

void WatchHub::OnEffects(const Core& /*core*/, const Effects& effects) {
  std::vector<std::shared_ptr<v1::WatchJobsResponse>> changes;
  const auto add = [&changes](const v1::JobRecord& job, bool deleted) {
    v1::WatchJobsResponse& change =
        *changes.emplace_back(std::make_shared<v1::WatchJobsResponse>());
    change.set_resource_version(job.resource_version());
    *change.mutable_job() = ToJob(job);
    change.set_deleted(deleted);
  };
  for (const v1::JobRecord& job : effects.changed) add(job, /*deleted=*/false);
  for (const v1::JobRecord& job : effects.deleted) add(job, /*deleted=*/true);
  PublishInOrder(std::move(changes), [this](auto change) { hub_.Publish(std::move(change)); });
}

void WatchHub::OnStop() { hub_.EndAll(ShuttingDown()); }

void NodeWatchHub::Subscribe(const Core& core, const std::string& name, int64_t version,
                             Watcher watcher) {
  if (hub_.IsFull()) return watcher->End(hub_.TooManyWatch());
  const std::string node = name.empty() ? "" : NodeName(name);
  if (!name.empty() && !core.FindNode(node).has_value()) {
    return watcher->End(Refusal(absl::StatusCode::kNotFound, "NODE_NOT_FOUND",
                                absl::StrCat("there is no node ", ShortName(name))));
  }
  if (version > core.resource_version() || !hub_.Keeps(version)) {
    return watcher->End(hub_.NotKept(version, core.resource_version()));
  }
  hub_.Add(
      [node](const v1::WatchNodesResponse& change) {
        return node.empty() || node == change.node().name();
      },
      version, std::move(watcher));
}

void NodeWatchHub::OnEffects(const Core& /*core*/, const Effects& effects) {
  std::vector<std::shared_ptr<v1::WatchNodesResponse>> changes;
  const auto add = [&changes](const v1::Node& node, bool deleted) {
    v1::WatchNodesResponse& change =
        *changes.emplace_back(std::make_shared<v1::WatchNodesResponse>());
    change.set_resource_version(node.resource_version());
    *change.mutable_node() = node;
    change.mutable_node()->clear_jobs();
    change.mutable_node()->clear_failure_jobs();
    change.set_deleted(deleted);
  };
  for (const v1::Node& node : effects.nodes) add(node, /*deleted=*/false);
  for (const v1::Node& node : effects.deleted_nodes) add(node, /*deleted=*/true);
  PublishInOrder(std::move(changes), [this](auto change) { hub_.Publish(std::move(change)); });
}

void NodeWatchHub::OnStop() { hub_.EndAll(ShuttingDown()); }

}  // namespace strata::controller
