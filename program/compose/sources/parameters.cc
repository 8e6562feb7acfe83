#include "program/compose/sources/parameters.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::program {

Parameters::Parameters(const Stage& stage, const UpdateEmitter& update) : stage_(stage) {
  Assembler& assembler = stage.assembler;
  for (const SetPlan& plan : stage.sets.sets) {
    const ParameterSet& set = stage.SetOf(plan);
    Slots slots;
    slots.parameters = assembler.AddPersistent(set.name, SlotClass::kParameters,
                                               set.bytes() / plan.parameter_parts, plan.trainable);
    if (plan.trainable && update) {
      const int64_t bytes = set.bytes() / plan.state_parts;
      for (int m = 0; m < 2; ++m) {
        slots.moments[m] = assembler.AddPersistent(
            absl::StrCat(set.name, m == 0 ? " first moment" : " second moment"),
            SlotClass::kOptimizer, bytes, true);
      }
      slots.update_template = static_cast<int>(assembler.set().templates.size());
      assembler.set().templates.push_back(update(set, bytes / 4));
    }
    slots_.push_back(slots);
  }
}

void Parameters::Open(std::vector<Use> uses) {
  uses_ = std::move(uses);
  needs_.clear();
  needs_of_use_.assign(uses_.size(), {});
  next_fetch_ = 0;
  for (size_t u = 0; u < uses_.size(); ++u) {
    const std::vector<int>& sets = stage_.graph.layers[uses_[u].layer].sets;
    for (const Formal& formal : stage_.graph.templates[uses_[u].template_index].formals) {
      if (formal.role != Role::kParameters) continue;
      const SetPlan& plan = *stage_.sets.Find(sets[formal.index]);
      if (plan.parameter_parts == 1) continue;
      needs_of_use_[u].push_back(static_cast<int>(needs_.size()));
      needs_.push_back({static_cast<int>(u), plan.index, stage_.SetOf(plan).bytes()});
    }
  }
  const int64_t ahead = stage_.plan.prefetch_bytes;
  residency_ =
      PlanResidency(needs_, ahead < 0 ? BytesOfNeighbours(needs_) : BytesOfOneUse(needs_) + ahead);
  places_.assign(residency_.fetches.size(), -1);
}

void Parameters::Before(int use) {
  while (next_fetch_ < residency_.fetches.size() && residency_.fetches[next_fetch_].before <= use) {
    Gather(residency_.fetches[next_fetch_]);
    ++next_fetch_;
  }
}

void Parameters::Gather(const Fetch& fetch) {
  const Need& need = needs_[fetch.need];
  const SetPlan& plan = *stage_.sets.Find(need.set);
  const ParameterSet& set = stage_.SetOf(plan);
  const int position = static_cast<int>(&plan - stage_.sets.sets.data());
  const std::string what = absl::StrCat(set.name, " micro ", uses_[need.use].micro_batch);
  const int place = stage_.assembler.AddTransient(absl::StrCat("gathered ", what),
                                                  SlotClass::kParameters, need.bytes);
  places_[next_fetch_] = place;
  const Operand own = Whole(slots_[position].parameters, need.bytes / plan.parameter_parts);
  stage_.assembler.Collective(
      {.op = CollectiveOp::kAllGather, .group = stage_.plan.shard_group(), .bytes = own.bytes},
      Purpose::kGather, Stream::kParameters, absl::StrCat("gather ", what), own,
      Whole(place, need.bytes), stage_.plan.scratch);
}

Operand Parameters::Bind(int use, int set, int64_t bytes) const {
  const SetPlan& plan = stage_.sets.sets[set];
  if (plan.parameter_parts == 1) return Whole(slots_[set].parameters, bytes);
  for (const int need : needs_of_use_[use]) {
    if (needs_[need].set == plan.index) {
      return Whole(places_[residency_.fetch_of_need[need]], bytes);
    }
  }
  return {};  // no such need: the layout refuses it by name
}

void Parameters::Update(int set, const Operand& gradient, const Operand& scalars) {
  const SetPlan& plan = stage_.sets.sets[set];
  const ParameterSet& of = stage_.SetOf(plan);
  const Slots& slots = slots_[set];
  const Group group = stage_.plan.shard_group();
  // The update's range of the flat layout follows from the rank's place in the group, also where
  // the part is a slot of its own and nothing moves.
  const auto part = [&](int slot, int parts) {
    if (plan.state_parts == 1) return Whole(slot, of.bytes());
    Operand own = stage_.OwnPart(group, slot, of.bytes());
    if (parts > 1) own.shard_stride = 0;
    return own;
  };
  stage_.assembler.Call(slots.update_template, Purpose::kUpdate, absl::StrCat("update ", of.name),
                        [&](const Formal& formal) -> Operand {
                          switch (formal.role) {
                            case Role::kParameters: {
                              Operand operand = part(slots.parameters, plan.parameter_parts);
                              operand.version = formal.index;
                              return operand;
                            }
                            case Role::kState: {
                              Operand operand =
                                  Whole(slots.moments[formal.index % 2], formal.bytes);
                              operand.version = formal.index / 2;
                              return operand;
                            }
                            case Role::kGradients:
                              return gradient;
                            case Role::kScalars:
                              return scalars;
                            default:
                              return {};
                          }
                        });
  stage_.assembler.last().predicate = Predicate{Scalar::kApply};
  if (plan.state_parts == 1 || plan.parameter_parts > 1) return;
  Operand own = stage_.OwnPart(group, slots.parameters, of.bytes());
  Operand whole = Whole(slots.parameters, of.bytes());
  own.version = whole.version = 1;
  stage_.assembler.Collective({.op = CollectiveOp::kAllGather, .group = group, .bytes = own.bytes},
                              Purpose::kGather, Stream::kParameters,
                              absl::StrCat("gather ", of.name), own, whole, stage_.plan.scratch);
}

}  // namespace strata::program
