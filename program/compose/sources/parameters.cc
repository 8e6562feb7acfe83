#include "program/compose/sources/parameters.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::program {

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
      if (IsPresent(plan)) continue;
      needs_of_use_[u].push_back(static_cast<int>(needs_.size()));
      needs_.push_back({static_cast<int>(u), plan.index, stage_.SetOf(plan).bytes()});
    }
  }
  const int64_t ahead = stage_.plan.prefetch_bytes;
  residency_ = PlanResidency(
      needs_, ahead < 0 ? BytesOfUsesInARow(needs_, 3) : BytesOfUsesInARow(needs_, 1) + ahead);
  places_.assign(residency_.fetches.size(), -1);
}

void Parameters::Before(int use) {
  while (next_fetch_ < residency_.fetches.size() && residency_.fetches[next_fetch_].before <= use) {
    places_[next_fetch_] = Bring(needs_[residency_.fetches[next_fetch_].need]);
    ++next_fetch_;
  }
}

int Parameters::Bring(const Need& need) {
  const SetPlan& plan = *stage_.sets.Find(need.set);
  const int position = static_cast<int>(&plan - stage_.sets.sets.data());
  const std::string what =
      absl::StrCat(stage_.SetOf(plan).name, " micro ", uses_[need.use].micro_batch);
  const bool gathered = plan.parameter_parts > 1;
  const int place = stage_.assembler.AddTransient(
      absl::StrCat(gathered ? "gathered " : "fetched ", what), SlotClass::kParameters, need.bytes);
  Operand own = state_.Held(position, State::kParameters, 0);
  if (stage_.plan.beyond_device()) {
    const Operand to = gathered ? stage_.OwnPart(stage_.plan.shard_group(), place, need.bytes)
                                : Whole(place, need.bytes);
    FetchFromHome(own, to, what);
    own = to;
  }
  if (gathered) {
    stage_.assembler.Collective(
        {.op = CollectiveOp::kAllGather, .group = stage_.plan.shard_group(), .bytes = own.bytes},
        Purpose::kGather, Stream::kParameters, absl::StrCat("gather ", what), own,
        Whole(place, need.bytes), stage_.plan.scratch);
  }
  return place;
}

void Parameters::FetchFromHome(Operand held, const Operand& to, const std::string& what) {
  if (stage_.plan.home == Home::kSsd) {
    held = slabs_.Read(held, Purpose::kFetch, absl::StrCat("read ", what));
  }
  stage_.assembler.Transfer(Stream::kFetch, Purpose::kFetch, absl::StrCat("fetch ", what), held,
                            to);
}

Operand Parameters::Bind(int use, int set, int64_t bytes) const {
  const SetPlan& plan = stage_.sets.sets[set];
  if (IsPresent(plan)) return Whole(state_.slot(set), bytes);
  for (const int need : needs_of_use_[use]) {
    if (needs_[need].set == plan.index) {
      return Whole(places_[residency_.fetch_of_need[need]], bytes);
    }
  }
  return {};  // no such need: the layout refuses it by name
}

}  // namespace strata::program
