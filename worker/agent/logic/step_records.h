// Where the step records of a job go.
#ifndef STRATA_WORKER_AGENT_LOGIC_STEP_RECORDS_H_
#define STRATA_WORKER_AGENT_LOGIC_STEP_RECORDS_H_

#include "absl/status/status.h"
#include "proto/strata/v1/standalone.pb.h"

namespace strata::worker {

// Written by one thread.
class StepRecords {
 public:
  virtual ~StepRecords() = default;
  // Readers see whole records. Errors name the place.
  virtual absl::Status Append(const v1::StepRecord& record) = 0;
  // What was appended survives the machine.
  virtual absl::Status Sync() = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOGIC_STEP_RECORDS_H_
