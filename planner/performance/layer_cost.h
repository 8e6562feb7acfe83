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
  SavedValues saved = {};  // with kListed

  auto operator<=>(const LayerKey&) const = default;  // NOLINT(modernize-use-nullptr): of clang 14
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

// Of software that saves by value: making each value again in a layer's backward, from those that
// the block makes before it.
ByValue<PassCost> ReplayCosts(const Machine& machine, const TrainingShape& shape,
                              const LayerKey& key);

// Of the layers' mean, where a list is for `layout.listed_layers` of them: theirs, and `others`' of
// layers with recompute none.
LayerCost MeanCost(const TrainingShape& shape, const LayoutChoice& layout, const LayerCost& listed,
                   const LayerCost& others);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_PERFORMANCE_LAYER_COST_H_
