#include "program/compose/updates/set_update.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::program {
namespace {

// What is at home there is brought to where the set is updated.
bool IsStaged(const SetPlan& set, Home home) {
  if (home == Home::kSsd) return true;
  return (home == Home::kDevice) != (set.state == Home::kDevice);
}

// Through a slab, and whole.
bool NeedsSlab(const SetPlan& set, Home home) {
  return set.state != Home::kDevice && IsStaged(set, home);
}

}  // namespace

int64_t SetUpdate::SlabBytes(const Stage& stage, const State& state) {
  int64_t bytes = 0;
  for (size_t s = 0; s < stage.sets.sets.size(); ++s) {
    const SetPlan& set = stage.sets.sets[s];
    const ParameterSet& of = stage.SetOf(set);
    if (!set.trainable) continue;
    if (NeedsSlab(set, set.parameters)) bytes = std::max(bytes, of.bytes() / set.state_parts);
    if (NeedsSlab(set, set.gradients)) {
      bytes = std::max(bytes, BytesOf(stage.plan.gradient, of.elements / set.state_parts));
    }
    if (!NeedsSlab(set, set.state)) continue;
    for (const StateSpec& spec : state.states(static_cast<int>(s))) {
      bytes = std::max(bytes, BytesOf(spec.format, of.elements / set.state_parts));
    }
  }
  return bytes;
}

int SetUpdate::SlabsAtOnce(const Stage& stage, const State& state) {
  int most = 0;
  for (size_t s = 0; s < stage.sets.sets.size(); ++s) {
    const SetPlan& set = stage.sets.sets[s];
    if (!set.trainable) continue;
    int count = (NeedsSlab(set, set.parameters) ? 1 : 0) + (NeedsSlab(set, set.gradients) ? 1 : 0);
    if (NeedsSlab(set, set.state)) {
      count += static_cast<int>(state.states(static_cast<int>(s)).size());
      if (stage.plan.update == UpdatePolicy::kSpeculative) ++count;
    }
    most = std::max(most, count);
  }
  return most;
}

Operand SetUpdate::Staged(int set, const Operand& home, const std::string& what) {
  if (PlanOf(set).state != Home::kDevice) return transfers_.Slab(home.bytes);
  return Whole(stage_.assembler.AddTransient(absl::StrCat(what, " to update"), SlotClass::kStaging,
                                             home.bytes),
               home.bytes);
}

std::vector<SetUpdate::Part> SetUpdate::PartsOf(int set) {
  std::vector<Part> parts;
  for (int part = 0; part < state_.parts(set); ++part) {
    Part& added = parts.emplace_back(Part{.home = state_.Held(set, part, 0)});
    const bool weights = part == State::kParameters;
    if (weights && Publishes(set)) {
      added.home = stage_.OwnPart(stage_.plan.shard_group(), state_.slot(set), added.home.bytes);
    }
    if (!IsStaged(PlanOf(set), weights ? PlanOf(set).parameters : PlanOf(set).state)) continue;
    added.staged =
        Staged(set, added.home, absl::StrCat(state_.Title(set, part), " of ", NameOf(set)));
  }
  return parts;
}

void SetUpdate::ReadParts(int set, const std::vector<Part>& parts) {
  for (int part = 0; part < state_.parts(set); ++part) {
    if (parts[part].staged.slot < 0 || !state_.IsRead(set, part)) continue;
    transfers_.Move(parts[part].home, parts[part].staged, Purpose::kUpdate,
                    absl::StrCat(state_.Title(set, part), " of ", NameOf(set)));
  }
}

void SetUpdate::WriteParts(int set, const std::vector<Part>& parts) {
  for (int part = 0; part < state_.parts(set); ++part) {
    if (parts[part].staged.slot < 0) continue;
    Operand next = parts[part].home;
    next.version = 1;
    transfers_.Move(parts[part].staged, next, Purpose::kUpdate,
                    absl::StrCat("next ", state_.Title(set, part), " of ", NameOf(set)));
  }
}

Operand SetUpdate::At(int set, const std::vector<Part>& parts, int part, int version) const {
  Operand operand = parts[part].staged;
  if (operand.slot < 0) {
    operand = parts[part].home;
    operand.version = version;
  }
  // Also where the part is a slot of its own and nothing moves.
  return part == State::kParameters && operand.shard_group == Group::kNone
             ? state_.InRange(set, operand)
             : operand;
}

void SetUpdate::Run(int set, const Operand& gradient) {
  Operand there = gradient;
  if (IsStaged(PlanOf(set), PlanOf(set).gradients)) {
    const std::string what = absl::StrCat("gradient of ", NameOf(set));
    there = Staged(set, gradient, what);
    transfers_.Move(gradient, there, Purpose::kUpdate, what);
  }
  const std::vector<Part> parts = PartsOf(set);
  ReadParts(set, parts);
  state_.CallUpdate(set, there, ScalarsOf(set),
                    [&](int part, int version) { return At(set, parts, part, version); });
  WriteParts(set, parts);
}

void SetUpdate::FixUp(int set) {
  const std::vector<Part> parts = PartsOf(set);
  ReadParts(set, parts);
  Operand next = state_.Held(set, State::kStates, 1);
  if (IsStaged(PlanOf(set), PlanOf(set).state)) {
    const std::string what = absl::StrCat("next first moment of ", NameOf(set));
    const Operand staged = Staged(set, next, what);
    transfers_.Move(next, staged, Purpose::kFixUp, what);
    next = staged;
  }
  std::vector<Operand> operands;
  for (int part = 0; part < state_.parts(set); ++part) {
    operands.push_back(At(set, parts, part, 0));
  }
  operands.push_back(next);
  operands.push_back(ScalarsOf(set));
  for (int part = 0; part < state_.parts(set); ++part) {
    operands.push_back(At(set, parts, part, 1));
    operands.back().access = Access::kWrite;
  }
  // The attributes of the update that is made again: rates, and which ranges decay.
  const Op& update = stage_.assembler.set().templates[state_.update_template(set)].ops.front();
  Op fix_up{.kind = OpKind::kAdamWFixUp,
            .ints = update.ints,
            .floats = update.floats,
            .flops = 4.0 * static_cast<double>(next.bytes)};
  stage_.assembler.CallOp(std::move(fix_up), Purpose::kFixUp, absl::StrCat("fix up ", NameOf(set)),
                          std::move(operands), stage_.plan.UpdateStream(PlanOf(set).state));
  WriteParts(set, parts);
}

void SetUpdate::Publish(int set) {
  if (!Publishes(set)) return;
  const SetPlan& plan = PlanOf(set);
  const int64_t bytes = stage_.SetOf(plan).bytes();
  const Group group = stage_.plan.shard_group();
  Operand own = stage_.OwnPart(group, state_.slot(set), bytes);
  Operand whole = Whole(state_.slot(set), bytes);
  own.version = whole.version = 1;
  const std::string& name = NameOf(set);
  // Groups do not reach what is at home beyond the device.
  Operand here = own, all = whole;
  if (plan.parameters != Home::kDevice) {
    all = Whole(
        stage_.assembler.AddTransient(absl::StrCat("next ", name), SlotClass::kParameters, bytes),
        bytes);
    here = stage_.OwnPart(group, all.slot, bytes);
    // Groups meet also where the step is not applied, and there is no next version.
    stage_.assembler.Zero(here, Purpose::kGather, absl::StrCat("zero own part of ", name));
    const size_t first = next_instruction();
    transfers_.Move(own, here, Purpose::kGather, absl::StrCat("own part of ", name));
    Guard(first, Scalar::kApply);
  }
  stage_.assembler.Collective({.op = CollectiveOp::kAllGather, .group = group, .bytes = own.bytes},
                              Purpose::kGather, Stream::kParameters, absl::StrCat("gather ", name),
                              here, all, stage_.plan.scratch);
  if (plan.parameters == Home::kDevice) return;
  const size_t first = next_instruction();
  transfers_.Move(all, whole, Purpose::kGather, name);
  Guard(first, Scalar::kApply);
}

void SetUpdate::Guard(size_t first, Scalar scalar) {
  std::vector<Instruction>& instructions = stage_.assembler.program().instructions;
  for (size_t i = first; i < instructions.size(); ++i) instructions[i].predicate = {scalar};
}

}  // namespace strata::program
