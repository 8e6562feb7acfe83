#include "program/compose/updates/set_update.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::program {
namespace {

// Whether what is at home there is brought to where a range's state is updated.
bool IsStaged(Home state, Home home) {
  const bool on_device = Plan::UpdatesOnDevice(state);
  return home == Home::kSsd || home == Home::kUnified || (home == Home::kDevice) != on_device;
}

bool NeedsSlab(Home state, Home home) {
  return !Plan::UpdatesOnDevice(state) && IsStaged(state, home);
}

// Calls with each range of the stage, its set and the set's position.
void ForRanges(const Stage& stage,
               const std::function<void(int, const SetPlan&, const StateRange&)>& visit) {
  for (size_t s = 0; s < stage.sets.sets.size(); ++s) {
    for (const StateRange& range : stage.sets.sets[s].ranges) {
      visit(static_cast<int>(s), stage.sets.sets[s], range);
    }
  }
}

}  // namespace

int64_t SetUpdate::SlabBytes(const Stage& stage, const State& state) {
  int64_t most = 0;
  ForRanges(stage, [&](int s, const SetPlan& set, const StateRange& range) {
    const auto needs = [&](Home home, int64_t bytes) {
      // What is updated on the device passes through one on its way from SSD.
      if (NeedsSlab(range.home, home) || home == Home::kSsd) most = std::max(most, bytes);
    };
    needs(set.parameters, BytesOf(stage.SetOf(set).type, range.count));
    needs(set.gradients, BytesOf(stage.plan.update_gradient(), range.count));
    for (const StateSpec& spec : state.states(s)) {
      needs(range.home, BytesOf(spec.format, range.count));
    }
  });
  return most;
}

int SetUpdate::SlabsAtOnce(const Stage& stage, const State& state) {
  int most = 0;
  ForRanges(stage, [&](int s, const SetPlan& set, const StateRange& range) {
    int count = 0;
    const auto needs = [&](Home home, int slabs) {
      if (NeedsSlab(range.home, home)) count += slabs;
    };
    needs(set.parameters, 1);
    needs(set.gradients, 1);
    const int states = static_cast<int>(state.states(s).size());
    needs(range.home, states + (stage.plan.update == UpdatePolicy::kSpeculative ? 1 : 0));
    most = std::max(most, count);
  });
  return most;
}

std::vector<SetUpdate::Range> SetUpdate::RangesOf(int set) const {
  std::vector<Range> ranges;
  for (const StateRange& range : PlanOf(set).ranges) {
    ranges.push_back({set, static_cast<int>(ranges.size()), range.home});
  }
  return ranges;
}

Operand SetUpdate::Staged(const Range& range, Home from, const Operand& home,
                          const std::string& what) {
  if (!Plan::UpdatesOnDevice(range.home)) return transfers_.Slab(home.bytes);
  return Whole(
      stage_.AddPlace(absl::StrCat(what, " to update"), from, SlotClass::kStaging, home.bytes),
      home.bytes);
}

std::vector<SetUpdate::Part> SetUpdate::PartsOf(const Range& range) {
  std::vector<Part> parts;
  for (int part = 0; part < state_.parts(range.set); ++part) {
    Part& added = parts.emplace_back(Part{state_.Held(range.set, range.index, part, 0), {}});
    const Home home = part == State::kParameters ? PlanOf(range.set).parameters : range.home;
    if (!IsStaged(range.home, home)) continue;
    // Of unified memory, what is written comes, too.
    added.is_brought = home == Home::kUnified || state_.IsRead(range.set, part);
    added.staged = Staged(range, home, added.home,
                          absl::StrCat(state_.Title(range.set, part), " of ", NameOf(range.set)));
  }
  return parts;
}

void SetUpdate::ReadParts(const Range& range, const std::vector<Part>& parts) {
  for (int part = 0; part < state_.parts(range.set); ++part) {
    if (parts[part].staged.slot < 0 || !parts[part].is_brought) continue;
    transfers_.Move(parts[part].home, parts[part].staged, Purpose::kUpdate,
                    absl::StrCat(state_.Title(range.set, part), " of ", NameOf(range.set)));
  }
}

void SetUpdate::WriteParts(const Range& range, const std::vector<Part>& parts) {
  for (int part = 0; part < state_.parts(range.set); ++part) {
    if (parts[part].staged.slot < 0) continue;
    Operand next = parts[part].home;
    next.version = 1;
    transfers_.Move(
        parts[part].staged, next, Purpose::kUpdate,
        absl::StrCat("next ", state_.Title(range.set, part), " of ", NameOf(range.set)));
  }
}

Operand SetUpdate::At(const Range& range, const std::vector<Part>& parts, int part,
                      int version) const {
  Operand operand = parts[part].staged;
  if (operand.slot < 0) {
    operand = parts[part].home;
    operand.version = version;
  }
  // Also where the part is a slot of its own and nothing moves.
  return part == State::kParameters && operand.shard_group == Group::kNone
             ? state_.InRange(range.set, operand)
             : operand;
}

void SetUpdate::Run(int set, const Operand& gradient, std::optional<Scalar> guard) {
  for (const Range& range : RangesOf(set)) {
    const StateRange& of = PlanOf(set).ranges[range.index];
    Operand piece = gradient;
    piece.offset += BytesOf(stage_.plan.update_gradient(), of.first);
    piece.bytes = BytesOf(stage_.plan.update_gradient(), of.count);
    RunRange(range, piece, guard);
  }
}

void SetUpdate::RunRange(const Range& range, const Operand& gradient, std::optional<Scalar> guard) {
  // The gradient comes last: the others do not wait for a backward.
  const std::vector<Part> parts = PartsOf(range);
  ReadParts(range, parts);
  Operand there = gradient;
  // The last one has not gone home.
  const Home home =
      transfers_.TierOf(gradient) == stage_.plan.tier ? Home::kDevice : PlanOf(range.set).gradients;
  if (IsStaged(range.home, home)) {
    const std::string what = absl::StrCat("gradient of ", NameOf(range.set));
    there = Staged(range, home, gradient, what);
    transfers_.Move(gradient, there, Purpose::kUpdate, what);
  }
  const size_t first = next_instruction();
  state_.CallUpdate(range.set, range.index, there, ScalarsOf(range),
                    [&](int part, int version) { return At(range, parts, part, version); });
  WriteParts(range, parts);
  if (guard.has_value()) Guard(first, *guard);
}

void SetUpdate::FixUp(int set) {
  for (const Range& range : RangesOf(set)) FixUpRange(range);
}

void SetUpdate::FixUpRange(const Range& range) {
  const std::vector<Part> parts = PartsOf(range);
  ReadParts(range, parts);
  Operand next = state_.Held(range.set, range.index, State::kStates, 1);
  if (IsStaged(range.home, range.home)) {
    const std::string what = absl::StrCat("next first moment of ", NameOf(range.set));
    const Operand staged = Staged(range, range.home, next, what);
    transfers_.Move(next, staged, Purpose::kFixUp, what);
    next = staged;
  }
  std::vector<Operand> operands;
  for (int part = 0; part < state_.parts(range.set); ++part) {
    operands.push_back(At(range, parts, part, 0));
  }
  operands.push_back(next);
  operands.push_back(ScalarsOf(range));
  for (int part = 0; part < state_.parts(range.set); ++part) {
    operands.push_back(At(range, parts, part, 1));
    operands.back().access = Access::kWrite;
  }
  // The attributes of the update that is made again: rates, and which ranges decay.
  const int update = state_.update_template(range.set, range.index);
  const Op& made = stage_.assembler.set().templates[update].ops.front();
  Op fix_up{.kind = OpKind::kAdamWFixUp, .ints = made.ints, .floats = made.floats};
  stage_.assembler.CallOp(std::move(fix_up), Purpose::kFixUp,
                          absl::StrCat("fix up ", NameOf(range.set)), std::move(operands),
                          stage_.plan.UpdateStream(range.home));
  WriteParts(range, parts);
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
