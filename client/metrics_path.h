// Where `--metrics` may write: the worker truncates that file.
#ifndef STRATA_CLIENT_METRICS_PATH_H_
#define STRATA_CLIENT_METRICS_PATH_H_

#include <string>

#include "absl/status/status.h"
#include "client/job_loading.h"

namespace strata::client {

// Refuses a path that means another file in the worker (a descriptor of this process, `-`), the job
// file or one of its data files, a file that cannot be written, and an existing one that holds
// anything else than step records. InvalidArgument. Leaves nothing behind that was not there.
absl::Status CheckMetricsPath(const std::string& path, const LoadedJob& job);

}  // namespace strata::client

#endif  // STRATA_CLIENT_METRICS_PATH_H_
