// What one layer and the head cost per micro-batch: all that depends on the kernels' shapes. A
// search keeps these by LayerKey; a step is then a few sums (step_prediction.h).
#ifndef STRATA_PLANNER_PERFORMANCE_LAYER_COST_H_
#define STRATA_PLANNER_PERFORMANCE_LAYER_COST_H_

#include <cstdint>
#include <tuple>

#include "planner/performance/machine.h"
#include "planner/performance/shape.h"

namespace strata::planner {

// The part of a layout on which a LayerCost depends, besides the shape and the machine.
struct LayerKey {
  int64_t tensor = 1;
  int64_t context = 1;
  int64_t expert = 1;
  int64_t micro_batch = 1;
  bool sequence_parallel = false;
  Precision precision = Precision::kHalf;
  Recompute recompute = Recompute::kNone;

  friend auto operator<=>(const LayerKey&, const LayerKey&) = default;
};

LayerKey KeyOf(const LayoutChoice& layout);

// Seconds of one pass, by what takes them.
struct PassCost {
  double products = 0;
  double attention = 0;
  double memory = 0;   // norms, activations, residuals, casts: bound by bytes
  double launch = 0;   // what the host's launches add when the device outruns it
  double tensor = 0;   // exposed collectives of tensor (and expert) groups
  double context = 0;  // exposed exchange of keys and values

  double compute() const { return products + attention + memory + launch; }
  double total() const { return compute() + tensor + context; }
  PassCost& operator+=(const PassCost& other);
  friend PassCost operator*(double factor, const PassCost& cost);
};

struct LayerCost {
  PassCost forward, backward;            // the backward with what it recomputes
  PassCost head_forward, head_backward;  // final norm, logits, loss; of the last stage
};

LayerCost CostOfLayer(const Machine& machine, const TrainingShape& shape, const LayerKey& key);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_PERFORMANCE_LAYER_COST_H_
