#include "worker/engine/bound_program.h"

#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::worker {
namespace {

using program::Action;
using program::Mechanism;
using program::Operand;

class ProgramBinder {
 public:
  ProgramBinder(const program::Program& program, const BindingContext& context)
      : program_(program), context_(context) {}

  absl::StatusOr<BoundProgram> Run(program::ExpandedProgram expanded) {
    result_.expanded = std::move(expanded);
    for (const auto* placements : {&context_.set->placements, &program_.placements}) {
      for (const program::Placement& placement : *placements) {
        result_.variants = std::lcm(result_.variants, static_cast<int64_t>(placement.copies));
      }
    }
    for (const Action& action : result_.expanded.actions) {
      places_.push_back(result_.lengths[static_cast<int>(action.stream)]++);
    }
    FindWakers();
    for (size_t a = 0; a < result_.expanded.actions.size(); ++a) {
      if (absl::Status status = Add(static_cast<int>(a)); !status.ok()) {
        return absl::Status(status.code(),
                            absl::StrCat("program ", program_.name, ", ",
                                         result_.expanded.Describe(program_, static_cast<int>(a)),
                                         ": ", status.message()));
      }
    }
    return std::move(result_);
  }

 private:
  // Actions of the main thread that something in the background waits for.
  void FindWakers() {
    wakes_.assign(result_.expanded.actions.size(), false);
    for (const Action& action : result_.expanded.actions) {
      if (IsMainStream(action.stream)) continue;
      for (const program::ActionDependency& dependency : action.dependencies) {
        if (dependency.action >= 0 && dependency.action < static_cast<int>(wakes_.size())) {
          wakes_[dependency.action] = true;
        }
      }
    }
  }

  absl::Status Add(int index) {
    const Action& action = result_.expanded.actions[index];
    BoundAction bound;
    bound.action = index;
    bound.stream = static_cast<int>(action.stream);
    bound.place = places_[index];
    bound.purpose = program_.instructions[action.instruction].purpose;
    bound.wakes_background = IsMainStream(action.stream) && wakes_[index];
    RETURN_IF_ERROR(AddDependencies(index, bound));
    if (action.predicate.has_value()) {
      const Operand scalar{.slot = context_.set->scalars,
                           .offset = ScalarOffset(action.predicate->scalar),
                           .bytes = 8};
      ASSIGN_OR_RETURN(const BoundOperand at,
                       context_.addresses->Resolve(program_, scalar, *context_.groups, 0));
      bound.predicate = reinterpret_cast<const double*>(at.data);
      bound.negated = action.predicate->negated;
    }
    for (int64_t variant = 0; variant < result_.variants; ++variant) {
      ASSIGN_OR_RETURN(BoundAction::Variant made, BindVariant(action, variant));
      bound.variants.push_back(std::move(made));
    }
    auto& queue = IsMainStream(action.stream) ? result_.main : result_.background[bound.stream];
    queue.push_back(std::move(bound));
    return absl::OkStatus();
  }

  absl::Status AddDependencies(int index, BoundAction& bound) const {
    const std::vector<Action>& actions = result_.expanded.actions;
    for (const program::ActionDependency& dependency : actions[index].dependencies) {
      const int other = dependency.action;
      const bool in_range = other >= 0 && other < static_cast<int>(actions.size()) &&
                            dependency.steps_back >= 0 && dependency.steps_back <= 1;
      if (!in_range || (dependency.steps_back == 0 && other >= index)) {
        return absl::InvalidArgumentError(
            absl::StrCat("depends on action ", other, ", ", dependency.steps_back,
                         " steps back, which does not come before it"));
      }
      bound.dependencies.push_back(
          {static_cast<int>(actions[other].stream), places_[other], dependency.steps_back, other});
    }
    return absl::OkStatus();
  }

  absl::StatusOr<BoundAction::Variant> BindVariant(const Action& action, int64_t applied) const {
    std::vector<BoundOperand> operands;
    // Behind the operands of the op or instruction, an expanded action lists what it reads beside.
    const std::vector<Operand>& own = action.op != nullptr
                                          ? action.op->operands
                                          : program_.instructions[action.instruction].operands;
    for (size_t i = 0; i < own.size(); ++i) {
      ASSIGN_OR_RETURN(
          const BoundOperand operand,
          context_.addresses->Resolve(program_, action.operands[i], *context_.groups, applied));
      operands.push_back(operand);
    }
    switch (action.mechanism) {
      case Mechanism::kCall: {
        ASSIGN_OR_RETURN(BoundOp run, BindOp(*action.op, operands, Environment(action)));
        return BoundAction::Variant{.run = std::move(run), .operation = {}};
      }
      case Mechanism::kCollective:
      case Mechanism::kSend:
      case Mechanism::kReceive: {
        RETURN_IF_ERROR(CheckGroup(action));
        ASSIGN_OR_RETURN(BoundCommunication bound,
                         BindCommunication(action, operands, *context_.groups));
        return BoundAction::Variant{
            .run = std::move(bound.local),
            .operation = bound.operation.value_or(collectives::Operation{})};
      }
      case Mechanism::kTransfer:
        return BindTransfer(operands);
      case Mechanism::kSignal: {
        const program::Instruction& signal = program_.instructions[action.instruction];
        return BoundAction::Variant{
            .run = [host = context_.host,
                    &signal] { return host->Signal(signal.purpose, signal.label); },
            .operation = {}};
      }
    }
    return absl::InternalError("an unknown mechanism");
  }

  absl::Status CheckGroup(const Action& action) const {
    const program::Group group = action.communication.group;
    if (context_.groups->size(group) == context_.set->groups.of(group)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "the program was made for a group ", Name(group), " of ", context_.set->groups.of(group),
        ", this rank's has ", context_.groups->size(group)));
  }

  static absl::StatusOr<BoundAction::Variant> BindTransfer(
      const std::vector<BoundOperand>& operands) {
    if (operands.size() != 2 || operands[0].bytes != operands[1].bytes) {
      return absl::InvalidArgumentError("a transfer has a source and a destination of one size");
    }
    return BoundAction::Variant{
        .run =
            [from = operands[0].data, to = operands[1].data, bytes = operands[0].bytes] {
              std::memcpy(to, from, bytes);
              return absl::OkStatus();
            },
        .operation = {}};
  }

  const OpEnvironment& Environment(const Action& action) const {
    return IsMainStream(action.stream) ? context_.main : context_.background;
  }

  const program::Program& program_;
  const BindingContext& context_;
  BoundProgram result_;
  std::vector<int64_t> places_;  // of each action on its stream
  std::vector<bool> wakes_;
};

}  // namespace

absl::StatusOr<BoundProgram> Bind(const program::Program& program,
                                  program::ExpandedProgram expanded,
                                  const BindingContext& context) {
  return ProgramBinder(program, context).Run(std::move(expanded));
}

}  // namespace strata::worker
