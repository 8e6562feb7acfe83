// Starting processes that outlive whoever starts them.
#ifndef STRATA_CLIENT_LOCAL_CLUSTER_SPAWN_H_
#define STRATA_CLIENT_LOCAL_CLUSTER_SPAWN_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strata::client {

// Starts arguments[0] in a process group of its own, with nothing as input, its output appended to
// `log`, no other descriptors, an ordinary program's signals, and this process's environment. A log
// of more than 16 MiB is put aside first (LOG.1).
absl::StatusOr<pid_t> SpawnMember(const std::vector<std::string>& arguments,
                                  const std::string& log);

// The same in a session of its own, in `folder`, as `program` with arguments[0] as its name, and
// with `variable` (NAME=VALUE) in its environment.
absl::StatusOr<pid_t> SpawnDetached(const std::string& program,
                                    const std::vector<std::string>& arguments,
                                    const std::string& folder, const std::string& variable,
                                    const std::string& log);

}  // namespace strata::client

#endif  // STRATA_CLIENT_LOCAL_CLUSTER_SPAWN_H_
