// What a rank's recorded actions tell: where compute stood.
#ifndef STRATA_TESTS_BENCH_STEP_TRACE_H_
#define STRATA_TESTS_BENCH_STEP_TRACE_H_

#include <vector>

#include "worker/engine/engine.h"

namespace strata::bench {

// The longest times in the latest step that compute stood still, with what it did next and what
// ended on other streams meanwhile.
void PrintWaits(const worker::Engine& engine, const std::vector<worker::TraceRecord>& trace);

}  // namespace strata::bench

#endif  // STRATA_TESTS_BENCH_STEP_TRACE_H_
