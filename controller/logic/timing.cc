#include "controller/logic/timing.h"

namespace strata::controller {

double Timing::PrepareSeconds(int ranks) const {
  constexpr double kSecondsPerRank = 0.1;  // as agents give them to connect (hang_limits.h)
  return prepare_seconds + storage_seconds + kSecondsPerRank * ranks;
}

Timing TimingOf(const v1::TimingPolicy& policy) {
  return {.heartbeat_seconds = policy.heartbeat_seconds(),
          .node_lost_seconds = policy.node_lost_seconds(),
          .lease_seconds = policy.lease_seconds(),
          .prepare_seconds = policy.prepare_seconds(),
          .storage_seconds = policy.storage_seconds(),
          .refused_seconds = policy.refused_seconds(),
          .stop_seconds = policy.stop_seconds(),
          .cancel_seconds = policy.cancel_seconds()};
}

}  // namespace strata::controller
