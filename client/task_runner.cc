#include "client/task_runner.h"

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/exit_codes.h"
#include "client/worker_process.h"

namespace strata::client {

using strata::v1::Finished;
using strata::v1::Notice;
using strata::v1::StandaloneEvent;

int RunTask(const strata::v1::StandaloneRequest& request, Terminal& terminal,
            const std::function<void(const StandaloneEvent&)>& on_event) {
  const absl::StatusOr<std::string> worker = FindWorker();
  if (!worker.ok()) {
    terminal.Error(std::string(worker.status().message()));
    return ExitCodeOf(worker.status());
  }
  WorkerCallbacks callbacks;
  callbacks.on_event = [&](const StandaloneEvent& event) {
    if (event.has_notice()) {
      const bool warning = event.notice().severity() == Notice::SEVERITY_WARNING;
      if (warning) {
        terminal.Error(absl::StrCat("warning: ", event.notice().text()));
      } else {
        terminal.Say(event.notice().text());
      }
    }
    on_event(event);
  };
  callbacks.go_on = [&] { return terminal.out_error() == 0; };
  const absl::StatusOr<Finished> finished = RunWorker(*worker, request, callbacks);
  if (!finished.ok()) {
    terminal.Error(std::string(finished.status().message()));
    return ExitCodeOf(finished.status());
  }
  if (terminal.out_error() != 0) return kExitFailed;  // told by the caller
  if (finished->outcome() == Finished::FAILED) terminal.Error(finished->message());
  return finished->exit_code();
}

}  // namespace strata::client
