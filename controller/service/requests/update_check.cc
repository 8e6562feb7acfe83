#include "controller/service/requests/update_check.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/logic/refusal.h"
#include "controller/service/requests/errors.h"
#include "spec/job_file.h"
#include "spec/problems.h"

namespace strata::controller {
namespace {

constexpr const char* kPaths[] = {"spec.resources.priority", "spec.resources.queue",
                                  "spec.train.steps",        "spec.labels",
                                  "spec.time_limit",         "ttl_after_finished"};

// The file's part of the values that are to change.
v1::JobSpec Named(const std::set<std::string>& paths, const v1::JobSpec& asked) {
  v1::JobSpec spec;
  if (paths.contains("spec.resources.priority")) {
    spec.mutable_resources()->set_priority(asked.resources().priority());
  }
  if (paths.contains("spec.resources.queue")) {
    spec.mutable_resources()->set_queue(asked.resources().queue());
  }
  if (paths.contains("spec.train.steps")) {
    spec.mutable_train()->set_steps(asked.train().steps());
  }
  if (paths.contains("spec.labels")) *spec.mutable_labels() = asked.labels();
  if (paths.contains("spec.time_limit") && asked.has_time_limit()) {
    *spec.mutable_time_limit() = asked.time_limit();
  }
  return spec;
}

}  // namespace

absl::Status CheckUpdate(const v1::UpdateJobRequest& request) {
  if (request.job().name().empty()) return InvalidField("job.name", "is missing — jobs/NAME");
  std::set<std::string> paths(request.update_mask().paths().begin(),
                              request.update_mask().paths().end());
  if (paths.empty()) {
    return InvalidField("update_mask",
                        absl::StrCat("names nothing — it can name ", absl::StrJoin(kPaths, ", ")));
  }
  for (const std::string& path : paths) {
    if (std::find(std::begin(kPaths), std::end(kPaths), path) != std::end(kPaths)) continue;
    return InvalidField("update_mask",
                        absl::StrCat(path.substr(0, 100), " cannot be changed — it can name ",
                                     absl::StrJoin(kPaths, ", ")));
  }
  spec::Problems problems("job");
  spec::ReadJob(spec::WriteJob(Named(paths, request.job().spec())), {}, problems);
  std::vector<FieldViolation> violations;
  for (const spec::Problem& problem : problems.Sorted()) {
    for (const std::string& path : paths) {  // the rest of the job is not here
      if (!absl::StartsWith(absl::StrCat("spec.", problem.path), path)) continue;
      violations.push_back({problem.path, problem.remedy.empty()
                                              ? problem.what
                                              : absl::StrCat(problem.what, " — ", problem.remedy)});
      break;
    }
  }
  if (violations.empty()) return absl::OkStatus();
  return RefuseFields(absl::StatusCode::kInvalidArgument, "INVALID_JOB", violations);
}

}  // namespace strata::controller
