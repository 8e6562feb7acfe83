// Which values of a template share bytes.
#ifndef STRATA_MODEL_PASSES_ALIAS_H_
#define STRATA_MODEL_PASSES_ALIAS_H_

#include <map>
#include <set>
#include <vector>

#include "model/passes/lower.h"

namespace strata::model {

class Aliases {
 public:
  Aliases(const std::vector<Loop>& loops, const Bindings& bindings);

  // One value for all that share bytes; the bound one if there is one.
  ValueId Of(ValueId value) const;
  // Whether the node works on a copy of the input that it would work on in place.
  bool NeedsCopy(const Node& node) const { return copies_.contains(node.out[0]); }
  // Indices of the loops that make or read the value, or what shares its bytes.
  const std::set<size_t>& LoopsOf(ValueId value) const { return loops_of_.at(Of(value)); }

 private:
  bool MayTakeOver(ValueId in, ValueId out, const Bindings& bindings) const;

  std::map<ValueId, ValueId> parent_;
  std::set<ValueId> copies_;
  std::map<ValueId, std::set<size_t>> loops_of_;
};

}  // namespace strata::model

#endif  // STRATA_MODEL_PASSES_ALIAS_H_
