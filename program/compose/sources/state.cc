#include "program/compose/sources/state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "program/compose/sources/transfers.h"

namespace strata::program {

State::State(const Stage& stage, const UpdateEmitter& update) : stage_(stage) {
  for (const SetPlan& plan : stage.sets.sets) {
    const ParameterSet& of = stage.SetOf(plan);
    const int index = static_cast<int>(sets_.size());
    Set& set = sets_.emplace_back();
    if (update) set.states = StatesOf(stage.plan, of);
    set.slots.push_back(AddSlot(of.name, plan.parameters, SlotClass::kParameters,
                                Bytes(index, kParameters), plan.trainable,
                                absl::StrCat("weights, ", program::Name(of.type))));
    for (int part = kStates; part < parts(index); ++part) {
      const StateSpec& state = set.states[part - kStates];
      set.slots.push_back(AddSlot(absl::StrCat(of.name, " ", state.title), plan.state,
                                  SlotClass::kOptimizer, Bytes(index, part), true,
                                  absl::StrCat(state.title, ", ", program::Name(state.format))));
    }
    if (plan.trainable && update) {
      set.update_template = static_cast<int>(stage.assembler.set().templates.size());
      stage.assembler.set().templates.push_back(update(of, of.elements / plan.state_parts));
    }
  }
}

std::string State::Title(int set, int part) const {
  return part == kParameters ? "parameters" : sets_[set].states[part - kStates].title;
}

int64_t State::Bytes(int set, int part) const {
  const SetPlan& plan = stage_.sets.sets[set];
  const ParameterSet& of = stage_.SetOf(plan);
  if (part == kParameters) return of.bytes() / plan.parameter_parts;
  return BytesOf(sets_[set].states[part - kStates].format, of.elements / plan.state_parts);
}

int State::AddSlot(const std::string& name, Home home, SlotClass klass, int64_t bytes,
                   bool versioned, std::string content) {
  return stage_.assembler.AddPersistent(
      Slot{.name = name,
           .tier = stage_.plan.TierOf(home),
           .klass = klass,
           .bytes = bytes,
           .alignment = home == Home::kSsd ? kSsdBlock : kSlotAlignment,
           .versioned = versioned,
           .content = std::move(content)});
}

bool State::IsRead(int set, int part) const {
  if (part != kParameters) return true;
  const Template& update = stage_.assembler.set().templates[update_template(set)];
  return std::any_of(update.formals.begin(), update.formals.end(), [](const Formal& formal) {
    return formal.role == Role::kParameters && formal.index == 0;
  });
}

Operand State::Held(int set, int part, int version) const {
  Operand operand = Whole(slot(set, part), Bytes(set, part));
  operand.version = version;
  return operand;
}

Operand State::InRange(int set, Operand part) const {
  if (stage_.sets.sets[set].state_parts == 1) return part;
  part.shard_group = stage_.plan.shard_group();
  return part;
}

void State::CallUpdate(int set, const Operand& gradient, const Operand& scalars,
                       const std::function<Operand(int part, int version)>& where) const {
  const int states = parts(set) - kStates;
  stage_.assembler.Call(
      update_template(set), Purpose::kUpdate,
      absl::StrCat("update ", stage_.SetOf(stage_.sets.sets[set]).name),
      [&](const Formal& formal) -> Operand {
        switch (formal.role) {
          case Role::kParameters:
            return where(kParameters, formal.index);
          case Role::kState:
            return where(kStates + formal.index % states, formal.index / states);
          case Role::kGradients:
            return gradient;
          case Role::kScalars:
            return scalars;
          default:
            return {};
        }
      },
      stage_.plan.UpdateStream(stage_.sets.sets[set].state));
}

}  // namespace strata::program
