// Joins what the ranks report of a step into the record that users see.
#ifndef STRATA_WORKER_AGENT_LOGIC_STEP_MERGER_H_
#define STRATA_WORKER_AGENT_LOGIC_STEP_MERGER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/strata/v1/standalone.pb.h"

namespace strata::worker {

class StepMerger {
 public:
  // Reports of steps after `start_step`, which each rank sends in order.
  StepMerger(int ranks, int64_t start_step) : newest_(ranks, start_step) {}

  // Adds a rank's report. Gives the step's record once all ranks have reported it: rank 0's, with
  // the memory of the worst rank (most memory beside the fixed overhead), the longest time and the
  // longest exposed communication. InvalidArgument: a report out of order.
  absl::StatusOr<std::optional<v1::StepRecord>> Add(int rank, const v1::StepRecord& report);

 private:
  struct Partial {
    int reports = 0;
    v1::StepRecord record;
  };
  std::vector<int64_t> newest_;  // step, per rank
  std::map<int64_t, Partial> steps_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOGIC_STEP_MERGER_H_
