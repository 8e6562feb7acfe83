// Runs a standalone task that is not a training run: events to the caller, notices and failures to
// the user.
#ifndef STRATA_CLIENT_TASK_RUNNER_H_
#define STRATA_CLIENT_TASK_RUNNER_H_

#include <functional>

#include "client/terminal/terminal.h"
#include "proto/strata/v1/standalone.pb.h"

namespace strata::client {

// Returns the exit code.
int RunTask(const strata::v1::StandaloneRequest& request, Terminal& terminal,
            const std::function<void(const strata::v1::StandaloneEvent&)>& on_event);

}  // namespace strata::client

#endif  // STRATA_CLIENT_TASK_RUNNER_H_
