// Lists of jobs: which, in which order, how much of each, page by page.
#ifndef STRATA_CONTROLLER_SERVICE_REQUESTS_JOB_LIST_H_
#define STRATA_CONTROLLER_SERVICE_REQUESTS_JOB_LIST_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/service/requests/filter.h"
#include "controller/service/requests/pages.h"
#include "proto/strata/v1/jobs.pb.h"
#include "proto/strata/v1/records.pb.h"

namespace strata::controller {

// A ListJobsRequest that was understood; needs no jobs to be made.
class JobList {
 public:
  // InvalidArgument, with the field: filter, order_by, view, page_size, page_token.
  static absl::StatusOr<JobList> Parse(const v1::ListJobsRequest& request);

  // One page of `jobs` (by name); `show`: a record as users see it. InvalidArgument of page_token:
  // the last job of the page before is gone, and the order is not that of names.
  absl::Status Fill(const std::vector<const v1::JobRecord*>& jobs,
                    const std::function<v1::Job(const v1::JobRecord&)>& show,
                    v1::ListJobsResponse& response) const;

 private:
  std::string list_;  // what the page tokens belong to
  Page page_;
  JobFilter filter_;
  JobOrder order_;
  bool by_name_ = true;
  bool full_ = false;
};

// Leaves what JOB_VIEW_BASIC tells.
void KeepBasic(v1::Job& job);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_REQUESTS_JOB_LIST_H_
