#include "program/compose/sources/state.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::program {

const char* State::Name(int part) {
  constexpr const char* kNames[] = {"parameters", "first moment", "second moment"};
  return kNames[part];
}

State::State(const Stage& stage, const UpdateEmitter& update) : stage_(stage) {
  for (const SetPlan& plan : stage.sets.sets) {
    const ParameterSet& of = stage.SetOf(plan);
    Set set;
    set.slots[kParameters] =
        AddSlot(of.name, SlotClass::kParameters, of.bytes() / plan.parameter_parts, plan.trainable);
    if (plan.trainable && update) {
      const int64_t bytes = of.bytes() / plan.state_parts;
      for (const int moment : {kFirstMoment, kSecondMoment}) {
        set.slots[moment] =
            AddSlot(absl::StrCat(of.name, " ", Name(moment)), SlotClass::kOptimizer, bytes, true);
      }
      set.update_template = static_cast<int>(stage.assembler.set().templates.size());
      stage.assembler.set().templates.push_back(update(of, bytes / 4));
    }
    sets_.push_back(set);
  }
}

int State::AddSlot(const std::string& name, SlotClass klass, int64_t bytes, bool versioned) {
  const bool on_ssd = stage_.plan.home == Home::kSsd;
  return stage_.assembler.AddPersistent(
      Slot{.name = name,
           .tier = on_ssd ? Tier::kSsd : stage_.plan.home_memory(),
           .klass = klass,
           .bytes = bytes,
           .alignment = on_ssd ? kSsdBlock : kSlotAlignment,
           .versioned = versioned});
}

Operand State::Held(int set, int part, int version) const {
  const SetPlan& plan = stage_.sets.sets[set];
  const int parts = part == kParameters ? plan.parameter_parts : plan.state_parts;
  Operand operand = Whole(slot(set, part), stage_.SetOf(plan).bytes() / parts);
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
  stage_.assembler.Call(
      update_template(set), Purpose::kUpdate,
      absl::StrCat("update ", stage_.SetOf(stage_.sets.sets[set]).name),
      [&](const Formal& formal) -> Operand {
        switch (formal.role) {
          case Role::kParameters:
            return where(kParameters, formal.index);
          case Role::kState:
            return where(kFirstMoment + formal.index % 2, formal.index / 2);
          case Role::kGradients:
            return gradient;
          case Role::kScalars:
            return scalars;
          default:
            return {};
        }
      },
      stage_.plan.home_stream());
}

}  // namespace strata::program
