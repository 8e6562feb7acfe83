// What happens to each parameter set on a stage of the pipeline: how it is cut, when its gradient
// is reduced, which of its squares count. Pure data, decided before anything is emitted.
#ifndef STRATA_PROGRAM_COMPOSE_PLAN_SETS_H_
#define STRATA_PROGRAM_COMPOSE_PLAN_SETS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "program/compose/plan.h"
#include "program/compose/plan_walk.h"
#include "program/ir/layer_graph.h"

namespace strata::program {

// When a set's partial gradients are summed over the data group, and leave for home.
enum class Reduce : uint8_t { kPerStep, kPerLeaf };

// What is updated at once: elements [first, first + count) of the rank's part.
struct StateRange {
  int64_t first = 0, count = 0;
  Home home = Home::kDevice;
};

struct SetPlan {
  int index = -1;  // in LayerGraph::sets
  bool trainable = true;
  // What one rank's gradient of one leaf is a partial sum over, all axes.
  Partial partial = 0;
  bool cut_by_tensor = false;  // each rank of the tensor group has a part of its own
  int producers = 0;           // calls per micro-batch that add to the gradient
  // Only vectors (norms, biases): too small to cut; whole on every rank, reduced all together.
  bool small = false;
  // Parts that each class of bytes is cut into over the shard group; 1: whole on every rank.
  int parameter_parts = 1, gradient_parts = 1, state_parts = 1;
  Reduce reduce = Reduce::kPerStep;
  Home parameters = Home::kDevice, gradients = Home::kDevice;
  // Of what one rank updates of it, ascending; none: frozen. One but with bytes beyond the device.
  std::vector<StateRange> ranges;
  bool counted = false;  // in this stage's part of the norm
  bool saved = true;     // by this stage: of several holders the first
  int column = -1;       // of the table of norms; -1: frozen

  bool tied() const { return (partial & PartialOver(Group::kEmbedding)) != 0; }
};

struct StagePlan {
  int stage = 0;
  std::vector<SetPlan> sets;  // in order of first use
  // Per layer of the graph, of what its forwards keep for its backwards; others' are kDevice.
  std::vector<Home> activations;
  const SetPlan* Find(int index) const;
};

struct SetPlans {
  std::vector<StagePlan> stages;
  // Of the table of norms: first the sets that are cut by tensor, whose squares are summed over the
  // tensor group, then the others; each in the order of LayerGraph::sets.
  int columns = 0;
  int cut_columns = 0;
};

// InvalidArgument: gradients that are partial sums in some templates and not in others, sets that
// stages other than the first and the last share.
absl::StatusOr<SetPlans> PlanSets(const LayerGraph& graph, const Plan& plan, const Walk& walk);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_PLAN_SETS_H_
