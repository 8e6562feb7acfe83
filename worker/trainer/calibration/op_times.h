// How long ops take inside real steps.
#ifndef STRATA_WORKER_TRAINER_CALIBRATION_OP_TIMES_H_
#define STRATA_WORKER_TRAINER_CALIBRATION_OP_TIMES_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "program/ir/program.h"
#include "program/readers/timeline.h"
#include "proto/strata/v1/profile.pb.h"
#include "worker/engine/step_metrics.h"

namespace strata::worker {

// Ops of the compute stream, told apart by kind and attributes, with what was measured of each.
class OpTimes {
 public:
  // The steps from `first_step` on that are in `trace`, of the first program of `set`.
  void Add(const program::ProgramSet& set, absl::Span<const TraceRecord> trace, int64_t first_step);

  // Of each op its median.
  void Write(v1::RankProfile& profile) const;

  // Rates alone: FLOPs of the ops that have any over all their seconds, and bytes of the others
  // over theirs. What was not measured stays as it is.
  void SetRates(program::Rates& rates) const;

 private:
  struct Measured {
    double flops = 0, bytes = 0;
    std::vector<double> seconds;
  };
  std::map<std::pair<program::OpKind, std::vector<int64_t>>, Measured> ops_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_CALIBRATION_OP_TIMES_H_
