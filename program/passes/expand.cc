#include "program/passes/expand.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::program {
namespace {

// The last action of one instruction on each stream it uses; -1 elsewhere.
using Ends = std::array<int, kStreamCount>;
constexpr Ends NoEnds() {
  Ends ends{};
  for (int& end : ends) end = -1;
  return ends;
}

Operand Resolve(const Operand& inner, const Template& tmpl, const Instruction& call) {
  const int formals = static_cast<int>(tmpl.formals.size());
  Operand outer = inner;
  if (inner.slot < formals) {
    const Operand& bound = call.operands[inner.slot];
    outer.slot = bound.slot;
    outer.offset += bound.offset;
    outer.version = bound.version;
    outer.partial |= bound.partial;
    if (bound.shard_group != Group::kNone) {
      outer.shard_group = bound.shard_group;
      outer.shard_stride = bound.shard_stride;
    }
  } else {
    outer.slot = call.frame;
    outer.offset += tmpl.local_offsets[inner.slot - formals];
  }
  return outer;
}

class Expander {
 public:
  Expander(const ProgramSet& set, const Program& program) : set_(set), program_(program) {}

  ExpandedProgram Run() {
    for (size_t i = 0; i < program_.instructions.size(); ++i) AddActions(static_cast<int>(i));
    for (size_t i = 0; i < program_.instructions.size(); ++i) AddDependencies(static_cast<int>(i));
    return std::move(result_);
  }

 private:
  void AddActions(int index) {
    first_.push_back(static_cast<int>(result_.actions.size()));
    for (Action& action : ExpandInstruction(set_, program_, index))
      result_.actions.push_back(std::move(action));
    Ends ends = NoEnds();
    for (int a = first_.back(); a < static_cast<int>(result_.actions.size()); ++a) {
      ends[static_cast<int>(result_.actions[a].stream)] = a;
    }
    ends_.push_back(ends);
    if (first_.back() < static_cast<int>(result_.actions.size())) {
      last_[static_cast<int>(program_.instructions[index].stream)] = index;
    }
  }

  void DependOn(Action& action, int other, int steps_back) const {
    if (other < 0 || result_.actions[other].stream == action.stream)
      return;  // a stream's own order is implied
    const ActionDependency dependency{other, steps_back};
    for (const ActionDependency& known : action.dependencies) {
      if (known == dependency) return;
    }
    action.dependencies.push_back(dependency);
  }

  void DependOn(Action& action, const Ends& ends, int steps_back) const {
    for (const int end : ends) DependOn(action, end, steps_back);
  }

  // What the instruction waits for as a whole holds for its first action on each stream: its own
  // dependencies, and whatever the stream's instruction before it has begun on any stream; before
  // the first of a step comes the last of the step before.
  void AddDependencies(int index) {
    const Instruction& instruction = program_.instructions[index];
    const int caller = static_cast<int>(instruction.stream);
    const bool first_of_step = previous_[caller] < 0;
    const int previous = first_of_step ? last_[caller] : previous_[caller];
    const int end = index + 1 < static_cast<int>(first_.size())
                        ? first_[index + 1]
                        : static_cast<int>(result_.actions.size());
    std::array<bool, kStreamCount> seen{};
    for (int a = first_[index]; a < end; ++a) {
      Action& action = result_.actions[a];
      if (action.op != nullptr) {
        for (const int op : action.op->dependencies) DependOn(action, first_[index] + op, 0);
      }
      if (std::exchange(seen[static_cast<int>(action.stream)], true)) continue;
      for (const Dependency& dependency : instruction.dependencies) {
        DependOn(action, ends_[dependency.instruction], dependency.steps_back);
      }
      if (previous >= 0) DependOn(action, ends_[previous], first_of_step ? 1 : 0);
    }
    if (end > first_[index]) previous_[caller] = index;
  }

  const ProgramSet& set_;
  const Program& program_;
  ExpandedProgram result_;
  std::vector<int> first_;  // first action of each instruction
  std::vector<Ends> ends_;
  // Per stream: the instruction that came before on it in this step, and the last one of a step;
  // -1: none. Instructions without actions are passed over.
  Ends previous_ = NoEnds();
  Ends last_ = NoEnds();
};

}  // namespace

std::vector<Action> ExpandInstruction(const ProgramSet& set, const Program& program, int index) {
  const Instruction& instruction = program.instructions[index];
  const Action plain{.instruction = index,
                     .mechanism = instruction.mechanism,
                     .stream = instruction.stream,
                     .communication = instruction.communication,
                     .predicate = instruction.predicate};
  std::vector<Action> actions;
  if (instruction.mechanism != Mechanism::kCall) {
    actions.push_back(plain);
    actions.back().operands = instruction.operands;
  } else {
    const Template& tmpl = set.templates[instruction.template_index];
    for (const Op& op : tmpl.ops) {
      Action& action = actions.emplace_back(plain);
      action.op = &op;
      if (op.stream != Stream::kCaller) action.stream = op.stream;
      if (op.kind == OpKind::kCollective) {
        action.mechanism = Mechanism::kCollective;
        action.communication = op.communication;
      }
      for (const Operand& operand : op.operands) {
        action.operands.push_back(Resolve(operand, tmpl, instruction));
        action.locals.push_back(std::max(-1, operand.slot - static_cast<int>(tmpl.formals.size())));
      }
    }
  }
  if (instruction.predicate.has_value()) {
    for (Action& action : actions) {
      action.operands.push_back(
          {.slot = set.scalars, .offset = ScalarOffset(instruction.predicate->scalar), .bytes = 8});
    }
  }
  return actions;
}

ExpandedProgram Expand(const ProgramSet& set, const Program& program) {
  return Expander(set, program).Run();
}

std::string ExpandedProgram::Describe(const Program& program, int index) const {
  const Action& action = actions[index];
  std::string text = absl::StrCat("instruction ", action.instruction, " (",
                                  program.instructions[action.instruction].label, ")");
  if (action.op == nullptr) return text;
  int op = 0;
  while (index - op > 0 && actions[index - op - 1].instruction == action.instruction) ++op;
  return absl::StrCat(text, ", op ", op, " (", Name(action.op->kind), ")");
}

}  // namespace strata::program
