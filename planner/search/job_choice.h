// A job of the memory report as the performance model sees it.
#ifndef STRATA_PLANNER_SEARCH_JOB_CHOICE_H_
#define STRATA_PLANNER_SEARCH_JOB_CHOICE_H_

#include <cstdint>
#include <optional>

#include "planner/fit/memory_of_job.h"
#include "planner/fit/presets.h"
#include "planner/performance/catalog.h"
#include "planner/performance/shape.h"

namespace strata::planner {

// Nothing: it is no decoder.
std::optional<TrainingShape> ShapeOf(const FitModel& model, int64_t sequence);

// Seconds of a step; negative: the closed form does not know the device or the job's kind
// (adapters, inference, parameters or gradients away from the device).
double StepSecondsOf(const Catalog& catalog, const FitRequest& request);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_SEARCH_JOB_CHOICE_H_
