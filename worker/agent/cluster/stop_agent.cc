#include "worker/agent/cluster/stop_agent.h"

#include <poll.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/agent/machine/channel.h"
#include "worker/agent/machine/descriptor.h"
#include "worker/shared/unix_socket.h"

namespace strata::worker {

absl::StatusOr<StopOptions> ParseStopOptions(const std::vector<std::string>& arguments) {
  constexpr double kMostSeconds = 3600;
  StopOptions options;
  for (size_t i = 0; i < arguments.size(); i += 2) {
    const std::string& flag = arguments[i];
    if (flag != "--dir" && flag != "--timeout") {
      return absl::InvalidArgumentError(absl::StrCat(flag, ": no such flag"));
    }
    if (i + 1 == arguments.size()) {
      return absl::InvalidArgumentError(absl::StrCat(flag, ": its value is missing"));
    }
    const std::string& value = arguments[i + 1];
    if (flag == "--dir") {
      options.directory = value;
    } else if (!absl::SimpleAtod(value, &options.timeout_seconds) ||
               !(options.timeout_seconds > 0 && options.timeout_seconds <= kMostSeconds)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--timeout: '", value, "' is no number of seconds up to ", kMostSeconds));
    }
  }
  if (options.directory.empty()) return absl::InvalidArgumentError("--dir: missing");
  return options;
}

absl::StatusOr<v1::AgentStopped> StopAgent(const StopOptions& options, const common::Clock& clock) {
  const absl::StatusOr<int> connected = ConnectTo(options.directory + "/agent.sock");
  if (!connected.ok()) {
    return absl::UnavailableError(absl::StrCat(options.directory, ": no agent lives there (",
                                               connected.status().message(), ")"));
  }
  const Descriptor socket(*connected);
  v1::TrainerEvent request;
  request.mutable_stop_agent();
  RETURN_IF_ERROR(FrameSender(socket.get()).Send(request));
  FrameReceiver receiver(socket.get());
  const double end = clock.Now() + options.timeout_seconds;
  for (bool more = true; more && clock.Now() < end;) {
    pollfd waiting{socket.get(), POLLIN, 0};
    poll(&waiting, 1, static_cast<int>(1e3 * (end - clock.Now())) + 1);
    more = receiver.Read();
    v1::TrainerCommand answer;
    ASSIGN_OR_RETURN(const bool whole, receiver.Next(&answer));
    if (!whole || !answer.has_agent_stopped()) continue;
    const v1::AgentStopped& stopped = answer.agent_stopped();
    if (stopped.problem().empty()) return stopped;
    return absl::InternalError(absl::StrCat(options.directory, ": ", stopped.problem()));
  }
  return absl::DeadlineExceededError(
      absl::StrCat(options.directory, ": its agent does not answer; end its process instead"));
}

}  // namespace strata::worker
