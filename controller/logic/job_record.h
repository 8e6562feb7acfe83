// A job's record and its events as the API shows them.
#ifndef STRATA_CONTROLLER_LOGIC_JOB_RECORD_H_
#define STRATA_CONTROLLER_LOGIC_JOB_RECORD_H_

#include <cstdint>
#include <string>

#include "proto/strata/v1/jobs.pb.h"
#include "proto/strata/v1/records.pb.h"

namespace strata::controller {

// One of what has happened to a job; numbers begin with 1 and grow.
struct NumberedEvent {
  int64_t number = 0;
  v1::JobEvent event;
};

// What changes with each change of the record.
std::string EtagOf(const v1::JobRecord& record);

// Everything but what only the controller's logic needs; with its etag.
v1::Job ToJob(const v1::JobRecord& record);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_JOB_RECORD_H_
