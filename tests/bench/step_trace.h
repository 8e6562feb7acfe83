// What a rank's recorded actions tell: rates of ops, and where compute stood.
#ifndef STRATA_TESTS_BENCH_STEP_TRACE_H_
#define STRATA_TESTS_BENCH_STEP_TRACE_H_

#include <vector>

#include "program/readers/timeline.h"
#include "worker/engine/engine.h"

namespace strata::bench {

// Rates of the compute stream's ops in the latest step: FLOPs of those that have any over their
// seconds, and bytes of the others over theirs.
void MeasureOps(const program::ProgramSet& set, const std::vector<worker::TraceRecord>& trace,
                program::Rates& rates);

// The longest times in the latest step that compute stood still, with what it did next and what
// ended on other streams meanwhile.
void PrintWaits(const worker::Engine& engine, const std::vector<worker::TraceRecord>& trace);

}  // namespace strata::bench

#endif  // STRATA_TESTS_BENCH_STEP_TRACE_H_
