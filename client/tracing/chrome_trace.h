// A job's trace as Perfetto and Chrome read it: the Trace Event Format
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU).
//
// Two processes per rank, one above the other: what was measured, and what the timeline predicted
// (steps end to end, from the first one shown). A thread per stream; a call is a slice around those
// of its ops. Arrows lead from sends to their receives, and in a collective from the member that
// came last to the others, who waited for it.
#ifndef STRATA_CLIENT_TRACING_CHROME_TRACE_H_
#define STRATA_CLIENT_TRACING_CHROME_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/trace_file.h"

namespace strata::client {

// Steps of which every rank still has every action, ascending.
std::vector<int64_t> WholeSteps(const protocol::JobTrace& trace);

// Records of a step, all ranks together, those of one that has none included.
int64_t RecordsPerStep(const protocol::JobTrace& trace);

// Steps `first` to `last` (whole ones), with what else ran meanwhile. Clocks of ranks on one
// machine are one; those of several machines are as far apart as their calendars.
std::string ChromeTrace(const protocol::JobTrace& trace, int64_t first, int64_t last);

}  // namespace strata::client

#endif  // STRATA_CLIENT_TRACING_CHROME_TRACE_H_
