#include "controller/logic/project_limits.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "controller/logic/cluster_requests.h"
#include "controller/logic/refusal.h"

namespace strata::controller {
namespace {

// An empty one for a project that is not there.
const v1::ProjectPolicy& LimitsOfProject(const v1::Policy& policy, const std::string& name) {
  const auto& projects = policy.projects();
  const auto found = std::find_if(projects.begin(), projects.end(),
                                  [&](const auto& project) { return project.name() == name; });
  return found == projects.end() ? v1::ProjectPolicy::default_instance() : *found;
}

}  // namespace

absl::Status CheckSpecLimits(const v1::Policy& policy, const v1::JobSpec& spec) {
  const std::string name = ProjectOf(spec);
  const v1::ProjectPolicy& project = LimitsOfProject(policy, name);
  const int64_t priority = spec.resources().priority();
  if (project.has_max_priority() && priority > project.max_priority()) {
    return InvalidField("resources.priority",
                        absl::StrCat(priority, " is above ", project.max_priority(),
                                     ", the most that project ", name, " allows (max_priority)"));
  }
  const auto bytes = static_cast<int64_t>(spec.ByteSizeLong());
  if (project.has_max_spec_bytes() && bytes > project.max_spec_bytes()) {
    return InvalidField(
        "spec", absl::StrCat("has ", bytes, " bytes, and project ", name, " allows ",
                             project.max_spec_bytes(), " (max_spec_bytes): shorten its lists"));
  }
  return absl::OkStatus();
}

absl::Status CheckQueueLimit(const ClusterState& state, const v1::JobSpec& spec) {
  const std::string name = ProjectOf(spec);
  const v1::ProjectPolicy& project = LimitsOfProject(state.policy, name);
  if (!project.has_max_queued_jobs()) return absl::OkStatus();
  const auto queued = std::count_if(state.queue.begin(), state.queue.end(), [&](const auto& each) {
    return ProjectOf(each.second->record.spec()) == name;
  });
  if (queued < project.max_queued_jobs()) return absl::OkStatus();
  const std::string what = absl::StrCat(queued, " jobs of project ", name, " wait, and it allows ",
                                        project.max_queued_jobs(), " (max_queued_jobs)");
  absl::Status status = Refusal(absl::StatusCode::kResourceExhausted, "QUEUE_FULL",
                                absl::StrCat(what, ": wait until one starts, or cancel one"));
  SetQuota(status, "projects/" + name, what);
  return status;
}

}  // namespace strata::controller
