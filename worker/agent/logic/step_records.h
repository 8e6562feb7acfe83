// Where the step records of a job go.
#ifndef STRATA_WORKER_AGENT_LOGIC_STEP_RECORDS_H_
#define STRATA_WORKER_AGENT_LOGIC_STEP_RECORDS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/strata/v1/standalone.pb.h"

namespace strata::worker {

// Written by one thread.
class StepRecords {
 public:
  virtual ~StepRecords() = default;
  // The step after the last one that was appended. It need not be there yet when this returns.
  // Errors name the place, here and below.
  virtual absl::Status Append(const v1::StepRecord& record) = 0;
  // The last step that readers see, in whole records; this process may end.
  virtual absl::StatusOr<int64_t> Written() = 0;
  // Whether what was written up to that step survives the machine; if not yet, ask again.
  virtual absl::StatusOr<bool> Sync(int64_t step) = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOGIC_STEP_RECORDS_H_
