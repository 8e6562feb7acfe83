// The standalone worker as a child process: starts it, passes signals on, and hands out its events.
#ifndef STRATA_CLIENT_WORKER_PROCESS_H_
#define STRATA_CLIENT_WORKER_PROCESS_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/strata/v1/standalone.pb.h"

namespace strata::client {

struct WorkerCallbacks {
  std::function<void(const strata::v1::StandaloneEvent&)> on_event;  // every event, in order
  std::function<void()> on_idle = [] {};  // about twice a second while nothing comes
  // After every event, and with on_idle: false ends the worker.
  std::function<bool()> go_on = [] { return true; };
  std::function<void(int signal)> on_signal = [](int) {
  };  // SIGINT or SIGTERM, after it was passed on; SIGHUP is passed on as SIGTERM
};

// The path of strata-worker beside this program. FailedPrecondition when it is not there.
absl::StatusOr<std::string> FindWorker();

// Runs `binary --standalone` with `request` until it ends, and returns its last event. The
// protocol, signals included, is described in standalone.proto. A worker that ends without Finished
// gives one with FAILED that says how it ended (or INTERRUPTED after a second signal), and one
// that is ended since `go_on` says so gives one with FAILED; after a
// second signal it has `patience` before it is killed. An error is returned only when it cannot be
// started. SIGINT, SIGTERM and SIGHUP are blocked meanwhile. Call from a process with one thread.
absl::StatusOr<strata::v1::Finished> RunWorker(const std::string& binary,
                                               const strata::v1::StandaloneRequest& request,
                                               const WorkerCallbacks& callbacks,
                                               absl::Duration patience = absl::Seconds(5));

}  // namespace strata::client

#endif  // STRATA_CLIENT_WORKER_PROCESS_H_
