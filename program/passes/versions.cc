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

// Moves the next version about, as a gather of an update's pieces does, and makes none: where the
// update was left out, it moves the bytes that are there.
bool Republishes(const Action& action, const Operand& next) {
  return action.is_communication() &&
         std::any_of(action.operands.begin(), action.operands.end(), [&](const Operand& o) {
           return o.slot == next.slot && o.version == next.version && o.reads();
         });
}

class TwoCopies {
 public:
  TwoCopies(const ProgramSet& set, const Program& program, std::vector<bool>& found)
      : set_(set), program_(program), found_(found), next_begun_(set.slots.size()) {}

  void Run() {
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      if (!MayMatter(program_.instructions[i])) continue;
      for (const Action& action : ExpandInstruction(set_, program_, static_cast<int>(i)))
        Visit(action);
    }
  }

 private:
  bool IsVersioned(const Operand& operand) const {
    return operand.slot < static_cast<int>(set_.slots.size()) && set_.slots[operand.slot].versioned;
  }

  // Without a next version, begun or about to be, there is nothing to look at.
  bool MayMatter(const Instruction& instruction) const {
    return std::any_of(instruction.operands.begin(), instruction.operands.end(),
                       [&](const Operand& o) {
                         return IsVersioned(o) && (o.version == 1 || !next_begun_[o.slot].empty());
                       });
  }

  int64_t End(const Operand& o) const {
    return o.offset + o.shard_stride * (set_.groups.of(o.shard_group) - 1) + o.bytes;
  }
  bool Overlap(const Operand& a, const Operand& b) const {
    if (a.shard_group == b.shard_group && a.shard_stride == b.shard_stride) {
      return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;  // both move alike
    }
    return a.offset < End(b) && b.offset < End(a);
  }

  void Visit(const Action& action) {
    for (const Operand& own : action.operands) {
      if (!IsVersioned(own) || own.version != 0) continue;
      for (const Operand& begun : next_begun_[own.slot]) {
        if (Overlap(own, begun)) found_[own.slot] = true;
      }
      for (const Operand& next : action.operands) {
        const bool same = own.offset == next.offset && own.bytes == next.bytes &&
                          own.shard_group == next.shard_group &&
                          own.shard_stride == next.shard_stride;
        if (next.slot == own.slot && next.version == 1 && next.writes() && Overlap(own, next) &&
            !same)
          found_[own.slot] = true;
      }
    }
    for (const Operand& next : action.operands) {
      if (!IsVersioned(next) || next.version != 1 || !next.writes()) continue;
      next_begun_[next.slot].push_back(next);
      if (!OnlyWhereApplied(action) && !Republishes(action, next)) found_[next.slot] = true;
    }
  }

  const ProgramSet& set_;
  const Program& program_;
  std::vector<bool>& found_;
  std::vector<std::vector<Operand>> next_begun_;  // per slot: writes of its next version so far
};

}  // namespace

void FindSlotsWithTwoCopies(const ProgramSet& set, const Program& program,
                            std::vector<bool>& two_copies) {
  TwoCopies(set, program, two_copies).Run();
}

}  // namespace strata::program
