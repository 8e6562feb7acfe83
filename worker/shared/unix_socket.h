// Stream sockets at a path of the file system, of any length.
#ifndef STRATA_WORKER_SHARED_UNIX_SOCKET_H_
#define STRATA_WORKER_SHARED_UNIX_SOCKET_H_

#include <string>

#include "absl/status/statusor.h"

namespace strata::worker {

// A listening socket, non-blocking, that takes the place of whatever is at `path`; mode 0600. The
// caller makes sure that nobody else listens there, and closes it. Errors name the path.
absl::StatusOr<int> ListenAt(const std::string& path);

// A connected, non-blocking socket, the caller's. Unavailable: nobody listens there now.
absl::StatusOr<int> ConnectTo(const std::string& path);

}  // namespace strata::worker

#endif  // STRATA_WORKER_SHARED_UNIX_SOCKET_H_
