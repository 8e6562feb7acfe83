// How often and how soon a job's ranks are started again.
#ifndef STRATA_CONTROLLER_LOGIC_RESTART_POLICY_H_
#define STRATA_CONTROLLER_LOGIC_RESTART_POLICY_H_

#include <cstdint>

#include "proto/strata/v1/jobs.pb.h"

namespace strata::controller {

inline constexpr double kLongestBackOffSeconds = 8;

// Epochs in a row that ended without a checkpoint of their own, the present one included.
int64_t WithoutProgressAfter(const v1::Job& job);

// Whether a job with that many may be started again (restart.max_without_progress; absent: 3).
bool MayRestart(const v1::Job& job, int64_t without_progress);

// Seconds before the next start: none for the first one, then `first`, doubled each time.
double BackOff(int64_t without_progress, double first);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_RESTART_POLICY_H_
