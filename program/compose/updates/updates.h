// Update policies: what happens to a set's state when its gradient is whole, and what when the norm
// is known (see UpdatePolicy).
#ifndef STRATA_PROGRAM_COMPOSE_UPDATES_UPDATES_H_
#define STRATA_PROGRAM_COMPOSE_UPDATES_UPDATES_H_

#include <memory>

#include "program/compose/updates/set_update.h"

namespace strata::program {

// Of one program; `set`: position in StagePlan::sets, `gradient`: at home.
class Updates {
 public:
  virtual ~Updates() = default;
  // The set's gradient is whole, its squares are summed.
  virtual void AtGradient(int set, const Operand& gradient) = 0;
  // After the finish, in the graph's order.
  virtual void AtEnd(int set, const Operand& gradient) = 0;
};

// `update` must outlive the policy.
std::unique_ptr<Updates> MakeDeferred(SetUpdate& update);
// `clips`: whether a norm can be more than it may be.
std::unique_ptr<Updates> MakeSpeculative(SetUpdate& update, bool clips);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_UPDATES_UPDATES_H_
