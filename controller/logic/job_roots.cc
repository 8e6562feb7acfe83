#include "controller/logic/job_roots.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/path_roots.h"
#include "controller/logic/cluster_requests.h"
#include "controller/logic/refusal.h"

namespace strata::controller {
namespace {

struct PathField {
  std::string field;
  std::string path;
};

std::vector<PathField> PathsOf(const v1::Job& job) {
  const v1::JobSpec& spec = job.spec();
  std::vector<PathField> paths;
  for (int i = 0; i < spec.data().train_size(); ++i) {
    paths.push_back({absl::StrCat("data.train[", i, "].path"), spec.data().train(i).path()});
  }
  paths.push_back({"data.validation.path", spec.data().validation().path()});
  paths.push_back({"model.from", spec.model().from()});
  paths.push_back({"train.start_from", spec.train().start_from()});
  paths.push_back({"checkpoint.directory", spec.checkpoint().directory()});
  for (int i = 0; i < spec.memory().ssd_size(); ++i) {
    paths.push_back({absl::StrCat("memory.ssd[", i, "].path"), spec.memory().ssd(i).path()});
  }
  paths.push_back({"directory", job.directory()});
  std::erase_if(paths, [](const PathField& each) { return each.path.empty(); });
  return paths;
}

}  // namespace

std::vector<std::string> RootsOf(const v1::Policy& policy, const v1::JobSpec& spec) {
  for (const v1::ProjectPolicy& project : policy.projects()) {
    if (project.name() == ProjectOf(spec)) return {project.roots().begin(), project.roots().end()};
  }
  return {};
}

absl::Status CheckRoots(const v1::Policy& policy, const v1::Job& job) {
  const std::vector<std::string> roots = RootsOf(policy, job.spec());
  if (roots.empty()) return absl::OkStatus();
  for (const auto& [field, path] : PathsOf(job)) {
    const bool beneath = std::any_of(roots.begin(), roots.end(), [&](const std::string& root) {
      return common::LiesBeneath(path, root);
    });
    if (beneath) continue;
    // What nobody has chosen is the controller's own folder for jobs.
    const char* const remedy = field == "directory"
                                   ? "): name one beneath them (strata submit --dir)"
                                   : "): move it there";
    return InvalidField(
        field, absl::StrCat(path, " lies under none of the folders that project ",
                            ProjectOf(job.spec()), " may use (", absl::StrJoin(roots, ", "), remedy,
                            ", or ask an operator to add its folder to the project's roots "
                            "(strata apply)"));
  }
  return absl::OkStatus();
}

}  // namespace strata::controller
