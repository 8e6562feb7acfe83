// What `strata fit` is asked about: a job file, or a model and a few flags, as a request that the
// memory report reads.
#ifndef STRATA_CLIENT_PLANNING_FIT_REQUEST_H_
#define STRATA_CLIENT_PLANNING_FIT_REQUEST_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/command_line/command.h"
#include "planner/fit/memory_of_job.h"

namespace strata::client {

struct LoadedFit {
  std::string title;  // the job's or the model's name
  planner::FitRequest request;
  double price = 0;                  // of one device and hour; 0: not given
  std::vector<std::string> notices;  // what was assumed, one line each
};

// InvalidArgument, every problem on a line: with FILE:LINE:COLUMN of a job file's, with its flag
// of a flag's.
absl::StatusOr<LoadedFit> LoadFit(const Arguments& arguments);

}  // namespace strata::client

#endif  // STRATA_CLIENT_PLANNING_FIT_REQUEST_H_
