// A job of the memory report as the performance model sees it.
#ifndef STRATA_PLANNER_SEARCH_JOB_CHOICE_H_
#define STRATA_PLANNER_SEARCH_JOB_CHOICE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "planner/fit/memory_of_job.h"
#include "planner/fit/presets.h"
#include "planner/performance/catalog.h"
#include "planner/performance/machine.h"
#include "planner/performance/shape.h"
#include "planner/search/saved_names.h"

namespace strata::planner {

// Nothing: it is no decoder.
std::optional<TrainingShape> ShapeOf(const FitModel& model, int64_t sequence);

// Unimplemented: the engine cannot train so (products in 8 or 4 bits, experts), with the reason.
absl::Status HasPrograms(const TrainingShape& shape, const LayoutChoice& layout);

// A complete job of such a layout: AdamW on 32-bit states, everything else as files that do not say
// have it; without the model, whose family's `names` a list of saved values has.
v1::JobSpec JobOf(const TrainingShape& shape, const LayoutChoice& layout,
                  const SavedNames& names = SavedNames());

// What the closed form needs of a job on devices of one kind.
struct JobChoice {
  Machine machine;
  TrainingShape shape;
  LayoutChoice layout;
};
// Nothing: it knows no such device, or not the job's kind (see StepSecondsOf). `job` is complete.
// `memory_bytes` of a device decides where its kind comes in several sizes.
std::optional<JobChoice> ChoiceOf(const Catalog& catalog, const FitModel& model,
                                  const v1::JobSpec& job, const std::string& device,
                                  std::optional<double> memory_bytes = std::nullopt);

// Seconds of a step; negative: the closed form does not know the device or the job's kind
// (adapters, inference, parameters or gradients away from the device).
double StepSecondsOf(const Catalog& catalog, const FitRequest& request);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_SEARCH_JOB_CHOICE_H_
