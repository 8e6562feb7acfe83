// How long what may take before the controller counts it as failed.
#ifndef STRATA_CONTROLLER_LOGIC_TIMING_H_
#define STRATA_CONTROLLER_LOGIC_TIMING_H_

#include "proto/strata/v1/policy.pb.h"

namespace strata::controller {

// All in seconds. What they mean stands with TimingPolicy (policy.proto).
struct Timing {
  double heartbeat_seconds;
  double node_lost_seconds;
  double lease_seconds;
  double prepare_seconds;
  double storage_seconds;
  double refused_seconds;
  double stop_seconds;
  double cancel_seconds;
  // Before epoch + 1, doubled per restart without progress, at most 8 s; none before the first.
  double back_off_seconds = 0.2;

  // An epoch of so many ranks that has not prepared by then is given up: they open their data and a
  // checkpoint meanwhile, so that a stall of storage is given its time.
  double PrepareSeconds(int ranks) const;
};

// `policy`: complete.
Timing TimingOf(const v1::TimingPolicy& policy);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_TIMING_H_
