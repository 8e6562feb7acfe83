#include "controller/service/requests/job_list.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/logic/refusal.h"

namespace strata::controller {

absl::StatusOr<JobList> JobList::Parse(const v1::ListJobsRequest& request) {
  JobList list;
  if (!v1::JobView_IsValid(request.view())) {
    return InvalidField("view", absl::StrCat(static_cast<int>(request.view()), " is unknown"));
  }
  list.full_ = request.view() == v1::JOB_VIEW_FULL;
  list.by_name_ = request.order_by().empty();
  ASSIGN_OR_RETURN(list.filter_, ParseFilter(request.filter()));
  ASSIGN_OR_RETURN(list.order_, ParseOrder(request.order_by()));
  list.list_ = absl::StrCat("jobs where ", request.filter(), " by ", request.order_by());
  ASSIGN_OR_RETURN(list.page_, ReadPage(list.list_, request.page_size(), request.page_token()));
  return list;
}

absl::Status JobList::Fill(const std::vector<const v1::JobRecord*>& jobs,
                           const std::function<v1::Job(const v1::JobRecord&)>& show,
                           v1::ListJobsResponse& response) const {
  std::vector<const v1::JobRecord*> selected;
  for (const v1::JobRecord* job : jobs) {
    const bool told = by_name_ && job->name() <= page_.after;
    if (!told && filter_(*job)) selected.push_back(job);
  }
  auto next = selected.begin();
  if (!by_name_) {
    std::sort(selected.begin(), selected.end(),
              [this](const v1::JobRecord* a, const v1::JobRecord* b) { return order_(*a, *b); });
    next = selected.begin();
    if (!page_.after.empty()) {
      next = std::find_if(selected.begin(), selected.end(),
                          [this](const auto* job) { return job->name() == page_.after; });
      if (next == selected.end()) {
        return InvalidField("page_token",
                            "names a job that the list no longer has — begin without one");
      }
      ++next;
    }
  }
  size_t bytes = 0;
  for (; next != selected.end(); ++next) {
    if (response.jobs_size() == page_.size || bytes > kMostPageBytes) {
      response.set_next_page_token(
          PageToken(list_, response.jobs(response.jobs_size() - 1).name()));
      break;
    }
    v1::Job& shown = *response.add_jobs();
    shown = show(**next);
    if (!full_) KeepBasic(shown);
    bytes += shown.ByteSizeLong();
  }
  return absl::OkStatus();
}

void KeepBasic(v1::Job& job) {
  const v1::JobSpec whole = std::move(*job.mutable_spec());
  v1::JobSpec& spec = *job.mutable_spec();
  spec.Clear();
  spec.set_name(whole.name());
  spec.set_project(whole.project());
  *spec.mutable_resources() = whole.resources();
  *spec.mutable_parallel() = whole.parallel();
  spec.mutable_train()->set_steps(whole.train().steps());
  *spec.mutable_labels() = whole.labels();
  if (whole.has_time_limit()) *spec.mutable_time_limit() = whole.time_limit();
  job.clear_placement();
  job.clear_events();
  job.clear_layout();
  job.clear_predicted_memory();
  job.clear_model();
}

}  // namespace strata::controller
