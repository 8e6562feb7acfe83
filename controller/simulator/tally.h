// What is counted of one job.
#ifndef STRATA_CONTROLLER_SIMULATOR_TALLY_H_
#define STRATA_CONTROLLER_SIMULATOR_TALLY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/strata/v1/jobs.pb.h"

namespace strata::simulator {

inline constexpr int kPlanned = -1;  // no failure: preempted, drained or moved

struct JobTally {
  bool submitted = false;
  v1::Job::State state = v1::Job::STATE_UNSPECIFIED;
  int64_t epoch = 0;                                // of the record
  int64_t nodes = 0;                                // of its first start
  std::vector<std::pair<std::string, int>> places;  // of its newest epoch, by rank
  std::optional<double> wait_seconds;               // until its first start

  std::optional<double> trained_at;    // for the first time
  std::optional<double> trains_since;  // now
  // When training began to stand still, and by what (index of a cause, or kPlanned).
  std::optional<double> paused_at;
  int pause_cause = kPlanned;
  std::optional<double> recovers_since;  // after a failure
  std::optional<double> queued_at;       // again, after it had trained
  double queued_in_pause = 0;
  double queued_seconds = 0;  // all together, after it had trained
  double planned_seconds = 0;
  int64_t planned = 0, interruptions = 0;

  // As of its newest commit.
  double life_seconds = 0, life_planned_seconds = 0, productive_seconds = 0;
};

}  // namespace strata::simulator

#endif  // STRATA_CONTROLLER_SIMULATOR_TALLY_H_
