// What the parts of a benchmark have in common: time, a small job.
#ifndef STRATA_TESTS_BENCH_BENCH_CALLS_H_
#define STRATA_TESTS_BENCH_BENCH_CALLS_H_

#include <chrono>
#include <string>

#include "proto/strata/v1/jobs.pb.h"

namespace strata::bench {

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point begin);
// Waits without looking at anything in between.
void PassTime(double seconds);
// For a job of one rank that nothing has to exist for.
v1::CreateJobRequest Request(const std::string& name);

}  // namespace strata::bench

#endif  // STRATA_TESTS_BENCH_BENCH_CALLS_H_
