// Update policies: what happens to a set's state when its gradient is whole, and what when the norm
// is known (see UpdatePolicy).
#ifndef STRATA_PROGRAM_COMPOSE_UPDATES_UPDATES_H_
#define STRATA_PROGRAM_COMPOSE_UPDATES_UPDATES_H_

#include <memory>

#include "program/compose/sources/slabs.h"
#include "program/compose/sources/stage.h"
#include "program/compose/sources/state.h"

namespace strata::program {

// Of one program; `set`: position in StagePlan::sets.
class Updates {
 public:
  virtual ~Updates() = default;
  // Only where gradients pass through slabs: the set's is whole in one, its squares are summed; the
  // slab is taken again after this.
  virtual void AtGradient(int set, const Operand& gradient) = 0;
  // After the finish, in the graph's order. `gradient`: where gradients stay in memory.
  virtual void AtEnd(int set, const Operand& gradient) = 0;
};

// `scalars`: the step's, where updates run; must outlive the policy.
std::unique_ptr<Updates> MakeDeferred(const Stage& stage, const State& state,
                                      const Operand& scalars);
std::unique_ptr<Updates> MakeSpooled(const Stage& stage, const State& state, Slabs& slabs,
                                     const Operand& scalars);
std::unique_ptr<Updates> MakeSpeculative(const Stage& stage, const State& state, Slabs& slabs,
                                         const Operand& scalars);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_UPDATES_UPDATES_H_
