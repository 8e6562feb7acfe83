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
    set.parameters =
        AddSlot(of.name, plan.parameters, SlotClass::kParameters, of.bytes() / plan.parameter_parts,
                plan.trainable, absl::StrCat("weights, ", program::Name(of.type)));
    if (!update) continue;
    for (const StateRange& range : plan.ranges) AddRange(index, range, update);
  }
}

void State::AddRange(int index, const StateRange& range, const UpdateEmitter& update) {
  const SetPlan& plan = stage_.sets.sets[index];
  const ParameterSet& of = stage_.SetOf(plan);
  Range& added = sets_[index].ranges.emplace_back();
  const std::string name = plan.ranges.size() == 1
                               ? of.name
                               : absl::StrCat(of.name, " range ", sets_[index].ranges.size() - 1);
  for (const StateSpec& state : sets_[index].states) {
    added.slots.push_back(AddSlot(absl::StrCat(name, " ", state.title), range.home,
                                  SlotClass::kOptimizer, BytesOf(state.format, range.count), true,
                                  absl::StrCat(state.title, ", ", program::Name(state.format))));
  }
  added.update = static_cast<int>(stage_.assembler.set().templates.size());
  stage_.assembler.set().templates.push_back(
      update(of, {range.first, range.count, of.elements / plan.state_parts}));
}

std::string State::Title(int set, int part) const {
  return part == kParameters ? "parameters" : sets_[set].states[part - kStates].title;
}

int State::AddSlot(const std::string& name, Home home, SlotClass klass, int64_t bytes,
                   bool versioned, std::string content) {
  return stage_.assembler.AddPersistent(Slot{.name = name,
                                             .tier = stage_.plan.TierOf(home),
                                             .klass = klass,
                                             .bytes = bytes,
                                             .alignment = home == Home::kSsd       ? kSsdBlock
                                                          : home == Home::kUnified ? kUnifiedPage
                                                                                   : kSlotAlignment,
                                             .versioned = versioned,
                                             .content = std::move(content)});
}

bool State::IsRead(int set, int part) const {
  if (part != kParameters) return true;
  const Template& update = stage_.assembler.set().templates[update_template(set, 0)];
  return std::any_of(update.formals.begin(), update.formals.end(), [](const Formal& formal) {
    return formal.role == Role::kParameters && formal.index == 0;
  });
}

Operand State::Parameters(int set) const {
  const SetPlan& plan = stage_.sets.sets[set];
  return Whole(slot(set), stage_.SetOf(plan).bytes() / plan.parameter_parts);
}

Operand State::Held(int set, int range, int part, int version) const {
  const SetPlan& plan = stage_.sets.sets[set];
  const ParameterSet& of = stage_.SetOf(plan);
  const auto& [first, count, home] = plan.ranges[range];
  Operand operand;
  if (part != kParameters) {
    const int state = part - kStates;
    operand = Whole(slots(set, range)[state], BytesOf(sets_[set].states[state].format, count));
  } else {
    operand = Parameters(set);
    // Where ranks update parts of parameters that are whole.
    if (plan.state_parts > plan.parameter_parts) {
      operand = stage_.OwnPart(stage_.plan.shard_group(), operand.slot, operand.bytes);
    }
    operand.offset += BytesOf(of.type, first);
    operand.bytes = BytesOf(of.type, count);
  }
  operand.version = version;
  return operand;
}

Operand State::InRange(int set, Operand part) const {
  if (stage_.sets.sets[set].state_parts == 1) return part;
  part.shard_group = stage_.plan.shard_group();
  return part;
}

void State::CallUpdate(int set, int range, const Operand& gradient, const Operand& scalars,
                       const std::function<Operand(int part, int version)>& where) const {
  const int states = parts(set) - kStates;
  stage_.assembler.Call(
      update_template(set, range), Purpose::kUpdate,
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
      stage_.plan.UpdateStream(stage_.sets.sets[set].ranges[range].home));
}

}  // namespace strata::program
