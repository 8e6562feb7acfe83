#include "program/passes/versions.h"

#include <algorithm>

#include "program/passes/expand.h"

namespace strata::program {
namespace {

// Gradients that were clipped were finite, so that the step is applied.
bool OnlyWhereApplied(const Action& action) {
  return action.predicate.has_value() && !action.predicate->negated &&
         (action.predicate->scalar == Scalar::kApply ||
          action.predicate->scalar == Scalar::kClipped);
}

}  // namespace

void FindSlotsWithTwoCopies(const ProgramSet& set, const Program& program,
                            std::vector<bool>& two_copies) {
  std::vector<std::vector<const Operand*>> next_begun(set.slots.size());
  const auto begin = [](const Operand& o) { return o.offset; };
  const auto end = [&](const Operand& o) {
    return o.offset + o.shard_stride * (set.groups.of(o.shard_group) - 1) + o.bytes;
  };
  const ExpandedProgram expanded = Expand(set, program);
  for (const Action& action : expanded.actions) {
    const auto is_versioned = [&](const Operand& operand) {
      return operand.slot < static_cast<int>(set.slots.size()) && set.slots[operand.slot].versioned;
    };
    for (const Operand& own : action.operands) {
      if (!is_versioned(own) || own.version != 0) continue;
      const auto overlaps = [&](const Operand* next) {
        return begin(own) < end(*next) && begin(*next) < end(own);
      };
      const auto& begun = next_begun[own.slot];
      if (std::any_of(begun.begin(), begun.end(), overlaps)) two_copies[own.slot] = true;
      for (const Operand& next : action.operands) {
        const bool same = begin(own) == begin(next) && own.bytes == next.bytes &&
                          own.shard_group == next.shard_group &&
                          own.shard_stride == next.shard_stride;
        if (next.slot == own.slot && next.version == 1 && next.writes() && overlaps(&next) && !same)
          two_copies[own.slot] = true;
      }
    }
    for (const Operand& next : action.operands) {
      if (!is_versioned(next) || next.version != 1 || !next.writes()) continue;
      next_begun[next.slot].push_back(&next);
      if (!OnlyWhereApplied(action)) two_copies[next.slot] = true;
    }
  }
}

}  // namespace strata::program
