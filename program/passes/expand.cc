#include "program/passes/expand.h"

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
  Action Begin(int index) const {
    const Instruction& instruction = program_.instructions[index];
    Action action;
    action.instruction = index;
    action.mechanism = instruction.mechanism;
    action.stream = instruction.stream;
    action.communication = instruction.communication;
    action.predicate = instruction.predicate;
    return action;
  }

  void AddActions(int index) {
    const Instruction& instruction = program_.instructions[index];
    first_.push_back(static_cast<int>(result_.actions.size()));
    if (instruction.mechanism != Mechanism::kCall) {
      Action action = Begin(index);
      action.operands = instruction.operands;
      Push(std::move(action));
    } else {
      const Template& tmpl = set_.templates[instruction.template_index];
      for (const Op& op : tmpl.ops) {
        Action action = Begin(index);
        action.op = &op;
        if (op.stream != Stream::kCaller) action.stream = op.stream;
        if (op.kind == OpKind::kCollective) {
          action.mechanism = Mechanism::kCollective;
          action.communication = op.communication;
        }
        for (const Operand& operand : op.operands) {
          action.operands.push_back(Resolve(operand, tmpl, instruction));
        }
        Push(std::move(action));
      }
    }
    Ends ends = NoEnds();
    for (int a = first_.back(); a < static_cast<int>(result_.actions.size()); ++a) {
      ends[static_cast<int>(result_.actions[a].stream)] = a;
    }
    ends_.push_back(ends);
  }

  void Push(Action action) {
    if (action.predicate.has_value()) {
      action.operands.push_back(
          {.slot = set_.scalars, .offset = ScalarOffset(action.predicate->scalar), .bytes = 8});
    }
    last_of_step_[static_cast<int>(action.stream)] = static_cast<int>(result_.actions.size());
    result_.actions.push_back(std::move(action));
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

  // The instruction's own dependencies, and, for a call, its place on the caller's stream: forks
  // and joins.
  void AddDependencies(int index) {
    const Instruction& instruction = program_.instructions[index];
    const int caller = static_cast<int>(instruction.stream);
    const int end = index + 1 < static_cast<int>(first_.size())
                        ? first_[index + 1]
                        : static_cast<int>(result_.actions.size());
    Ends seen = NoEnds();
    for (int a = first_[index]; a < end; ++a) {
      Action& action = result_.actions[a];
      const int stream = static_cast<int>(action.stream);
      if (action.op != nullptr) {
        for (const int op : action.op->dependencies) DependOn(action, first_[index] + op, 0);
      }
      if (seen[stream] < 0) {  // the call's first action on this stream
        for (const Dependency& dependency : instruction.dependencies) {
          for (const int other : ends_[dependency.instruction])
            DependOn(action, other, dependency.steps_back);
        }
        if (stream == caller) {
          for (const auto& [other, steps_back] : TakeJoins(caller))
            DependOn(action, other, steps_back);
        } else if (newest_[caller] >= 0) {
          DependOn(action, newest_[caller], 0);
        } else {
          DependOn(action, last_of_step_[caller], 1);
        }
      }
      seen[stream] = a;
    }
    if (seen[caller] >= 0) newest_[caller] = seen[caller];
    for (int s = 0; s < kStreamCount; ++s) {
      if (s != caller && seen[s] >= 0) joins_[caller].push_back(seen[s]);
    }
  }

  // Actions that calls on this stream left running on others; for the stream's first action, those
  // of the last step.
  std::vector<std::pair<int, int>> TakeJoins(int caller) {
    std::vector<std::pair<int, int>> joins;
    if (newest_[caller] < 0) {
      for (const int other : JoinsOfWholeStep(caller)) joins.emplace_back(other, 1);
    }
    for (const int other : joins_[caller]) joins.emplace_back(other, 0);
    joins_[caller].clear();
    return joins;
  }

  // What the last call of the step on this stream leaves open at the step's end.
  std::vector<int> JoinsOfWholeStep(int caller) const {
    std::vector<int> open;
    for (int i = static_cast<int>(program_.instructions.size()) - 1; i >= 0; --i) {
      if (static_cast<int>(program_.instructions[i].stream) != caller) continue;
      for (int s = 0; s < kStreamCount; ++s) {
        if (s != caller && ends_[i][s] >= 0) open.push_back(ends_[i][s]);
      }
      if (ends_[i][caller] >= 0) break;
    }
    return open;
  }

  const ProgramSet& set_;
  const Program& program_;
  ExpandedProgram result_;
  std::vector<int> first_;  // first action of each instruction
  std::vector<Ends> ends_;
  Ends last_of_step_ = NoEnds();
  Ends newest_ = NoEnds();
  std::array<std::vector<int>, kStreamCount> joins_;
};

}  // namespace

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
