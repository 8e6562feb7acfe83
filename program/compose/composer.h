// One composer: any plan of a layer graph becomes the programs of its stages.
//
// What happens is decided first, as data: the order of passes and messages (plan_walk.h), what
// becomes of each parameter set (plan_sets.h), which leaves a rank computes (plan.h). Then, for
// each event of the walk, the sources (sources/) put what comes before a use, bind its operands,
// put what comes after it; every step ends with the same finish: squares summed, losses and norms
// gathered, clip factor, updates.
#ifndef STRATA_PROGRAM_COMPOSE_COMPOSER_H_
#define STRATA_PROGRAM_COMPOSE_COMPOSER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "program/compose/plan.h"
#include "program/compose/plan_sets.h"
#include "program/compose/plan_walk.h"
#include "program/ir/layer_graph.h"
#include "program/ir/program.h"

namespace strata::program {

// A plan, decided: pure data, the same for all stages.
struct Decision {
  LayerGraph graph;  // its sets flattened for the plan's rows
  Plan plan;
  Leaves leaves;
  Walk train;
  std::optional<Walk> evaluate;
  EvaluateShape evaluate_shape;
  SetPlans sets;
};
absl::StatusOr<Decision> Decide(LayerGraph graph, const Plan& plan);

// Where a stage's programs put what the engine's owner reads and writes by name. `sets` are those
// of ProgramSet::sets.
struct StateSlots {
  // Elements [first, first + count) of the rank's part of a set's state, each state in a slot.
  struct Range {
    int64_t first = 0, count = 0;
    std::vector<int> slots;  // as `states`
  };
  struct Set {
    int parameters = -1;
    std::vector<StateSpec> states;  // none: frozen; the master first where there is one
    std::vector<Range> ranges;      // of the state's part
    // Equal parts of the flat layout that parameters and states are one of; the rank's index in
    // Plan::shard_group says which. 1: all of it.
    int parameter_parts = 1;
    int state_parts = 1;
    bool saved = true;  // by this stage; tied sets by the first one that has them
  };
  int scalars = -1;
  std::vector<Set> sets;
  std::vector<int> constants;  // per LayerGraph::constants; -1: not used on this stage
};

struct StagePrograms {
  ProgramSet set;  // programs: train, and evaluate when asked for; laid out
  StateSlots slots;
};

// InvalidArgument: options or graphs that do not go together.
absl::StatusOr<StagePrograms> ComposeStage(const Decision& decision, int stage,
                                           const UpdateEmitter& update);
// All stages.
absl::StatusOr<std::vector<StagePrograms>> Compose(LayerGraph graph, const Plan& plan,
                                                   const UpdateEmitter& update);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_COMPOSER_H_
