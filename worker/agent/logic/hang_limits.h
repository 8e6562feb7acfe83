// How long what a rank does may take before it counts as hung.
//
//   suspected       suspect_seconds, at least 5 x the slowest execution lately. For people only.
//   computing       hang_seconds, at least 5 x the slowest.
//   storage         storage_seconds + bytes / storage_bytes_per_second. What reads or writes files
//   or
//                   waits for it (a batch that is loaded, the snapshot gate), since a chunk was
//                   done; whatever runs while a checkpoint is being written, and a process with a
//                   thread in state D. A stall of a mount for minutes is common, and a restart
//                   reads and writes the same mount: it would not help. One chunk may be the sync
//                   of all bytes.
//   loading         phase_seconds + the storage's: it reads the checkpoint.
//   starting        phase_seconds + storage_seconds: it opens the data, and compiles.
//   connecting      phase_seconds + ranks x 0.1 s: each rank connects to its peers.
//
// `bytes` is the state of this node's ranks: of 70B parameters with Adam on 8 nodes of 8 devices
// about 130 GB, 65 s at 2 GB/s, which a fixed minute would end each time. At the floor of 100 MB/s
// it may take 22 minutes, and 10 more.
#ifndef STRATA_WORKER_AGENT_LOGIC_HANG_LIMITS_H_
#define STRATA_WORKER_AGENT_LOGIC_HANG_LIMITS_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "worker/shared/progress_layout.h"

namespace strata::worker {

// Defaults are those of TimingPolicy (policy.proto), which says what is used under a controller.
struct HangLimits {
  double suspect_seconds = 3;
  double hang_seconds = 60;
  double phase_seconds = 60;
  double storage_seconds = 600;
  double storage_bytes_per_second = 100e6;
  int64_t bytes = 0;  // that this node's ranks load or write together
  int ranks = 1;      // of the whole job

  static constexpr double kTimesSlowest = 5;
  static constexpr double kConnectSecondsPerRank = 0.1;

  // `slowest`: seconds, lately; 0: not executed before.
  double Suspect(double slowest) const {
    return std::max(suspect_seconds, kTimesSlowest * slowest);
  }
  double Compute(double slowest) const { return std::max(hang_seconds, kTimesSlowest * slowest); }
  double Storage() const {
    return storage_seconds + static_cast<double>(bytes) / storage_bytes_per_second;
  }
  // Of a phase without instructions; infinite where others decide how long it takes.
  double OfPhase(Phase phase) const {
    switch (phase) {
      case Phase::kStarting:
        return phase_seconds + storage_seconds;
      case Phase::kConnecting:
        return phase_seconds + kConnectSecondsPerRank * ranks;
      case Phase::kLoading:
        return phase_seconds + Storage();
      default:
        return std::numeric_limits<double>::infinity();
    }
  }
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOGIC_HANG_LIMITS_H_
