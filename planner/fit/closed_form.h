// Memory by arithmetic, for what the engine cannot run yet; docs/fit.md has the formulas.
#ifndef STRATA_PLANNER_FIT_CLOSED_FORM_H_
#define STRATA_PLANNER_FIT_CLOSED_FORM_H_

#include <string>

#include "planner/fit/memory_of_job.h"

namespace strata::planner {

// "Mixtral's experts are not built yet"; empty: the job has programs.
std::string WhyNoProgram(const FitRequest& request);

// No rank's compute tier holds less on the worst stage: weights, and of full training masters and
// moments, that live there, evenly cut. Tells in no time that something cannot fit.
int64_t LeastComputeBytes(const FitRequest& request);

// Every stage has an equal part of the model; without overhead.
MemoryOfJob ClosedForm(const FitRequest& request);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_FIT_CLOSED_FORM_H_
