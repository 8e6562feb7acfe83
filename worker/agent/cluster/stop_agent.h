// strata-worker stop: tells the agent of a directory to end its trainers and itself.
#ifndef STRATA_WORKER_AGENT_CLUSTER_STOP_AGENT_H_
#define STRATA_WORKER_AGENT_CLUSTER_STOP_AGENT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "proto/strata/v1/trainer.pb.h"

namespace strata::worker {

inline constexpr char kStopUsage[] =
    "  stop                     end an agent and its trainers, without a checkpoint: their jobs go "
    "on\n"
    "                           elsewhere, or when the agent is back\n"
    "      --dir DIR                   of the agent\n"
    "      [--timeout SECONDS]         for its answer (10)\n";

struct StopOptions {
  std::string directory;
  double timeout_seconds = 10;
};

// Arguments after `stop`. InvalidArgument: what is wrong.
absl::StatusOr<StopOptions> ParseStopOptions(const std::vector<std::string>& arguments);

// Returns when the agent's trainers are gone and it is about to end. Unavailable: no agent lives
// there; DeadlineExceeded: it does not answer (it stands still, or is of an older release);
// Internal: what it says it could not do.
absl::StatusOr<v1::AgentStopped> StopAgent(const StopOptions& options, const common::Clock& clock);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_CLUSTER_STOP_AGENT_H_
