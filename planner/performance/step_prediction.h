// Seconds of one optimizer step, in closed form: what each cause adds, and what fits.
#ifndef STRATA_PLANNER_PERFORMANCE_STEP_PREDICTION_H_
#define STRATA_PLANNER_PERFORMANCE_STEP_PREDICTION_H_

#include "planner/performance/layer_cost.h"
#include "planner/performance/machine.h"
#include "planner/performance/shape.h"

namespace strata::planner {

// In seconds, of the slowest stage; they add up to the step.
struct StepTerms {
  double products = 0;
  double attention = 0;
  double memory_bound = 0;
  double launch = 0;
  double tensor = 0;
  double context = 0;
  double pipeline_messages = 0;
  double bubble = 0;
  double data = 0;  // reductions and gathers that nothing hides, and what they slow down
  double optimizer = 0;
  double offload = 0;
  double overhead = 0;
  double straggler = 0;

  double total() const;
};

struct StepPrediction {
  double seconds = 0;
  StepTerms terms;
  double memory_bytes = 0;  // of the fullest device
  double host_bytes = 0;    // of its host, for it
};

// Parameters that one device of the fullest stage holds before any data sharding.
struct StageParameters {
  double dense = 0;    // sharded over data · context
  double experts = 0;  // sharded over data · context · tensor / expert
};
StageParameters ParametersOf(const TrainingShape& shape, const LayoutChoice& layout);

// Layers of a stage: the most, and whether the ends have one fewer (the embedding and the head
// count as layers when that divides evenly).
struct StageLayers {
  double middle = 0;
  double last = 0;
};
StageLayers LayersOf(const TrainingShape& shape, const LayoutChoice& layout);

// `cost` is CostOfLayer's for KeyOf(layout), where a list is for some layers MeanCost. Requires
// degrees that fit the shape and at least one micro-batch. Straggler term: arXiv:2402.15627,
// section 6.
StepPrediction PredictStep(const Machine& machine, const TrainingShape& shape,
                           const LayoutChoice& layout, const LayerCost& cost);
// The same with its own layer cost.
StepPrediction PredictStep(const Machine& machine, const TrainingShape& shape,
                           const LayoutChoice& layout);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_PERFORMANCE_STEP_PREDICTION_H_
