#include "model/passes/alias.h"

#include "common/check.h"
#include "model/graph/node_rule.h"

namespace strata::model {

ValueId Aliases::Of(ValueId value) const {
  for (auto found = parent_.find(value); found != parent_.end(); found = parent_.find(value)) {
    value = found->second;
  }
  return value;
}

bool Aliases::MayTakeOver(ValueId in, ValueId out, const Bindings& bindings) const {
  const auto bound_in = bindings.find(Of(in));
  const auto bound_out = bindings.find(out);
  if (bound_in == bindings.end()) return true;
  if (bound_in->second.preserved) return false;
  return bound_out == bindings.end() || (bound_in->second.role == bound_out->second.role &&
                                         bound_in->second.index == bound_out->second.index);
}

Aliases::Aliases(const std::vector<Loop>& loops, const Bindings& bindings) {
  std::map<ValueId, const Node*> last_reader;
  for (const Loop& loop : loops) {
    for (const Node& node : loop) {
      for (const ValueId in : node.in) last_reader[in] = &node;
    }
  }
  for (const Loop& loop : loops) {
    for (const Node& node : loop) {
      const int index = RuleOf(node.kind).in_place(node);
      if (index < 0) continue;
      const ValueId in = node.in[index];
      const ValueId out = node.out[0];
      STRATA_CHECK(node.discarded == 0);
      if (last_reader[in] != &node || !MayTakeOver(in, out, bindings)) {
        copies_.insert(out);
      } else if (bindings.contains(Of(in))) {
        parent_[out] = Of(in);
      } else {
        parent_[Of(in)] = out;
      }
    }
  }
  for (size_t i = 0; i < loops.size(); ++i) {
    for (const Node& node : loops[i]) {
      for (const ValueId in : node.in) loops_of_[Of(in)].insert(i);
      for (const ValueId out : node.out) loops_of_[Of(out)].insert(i);
    }
  }
}

}  // namespace strata::model
