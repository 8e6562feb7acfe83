#include "program/compose/sources/parameters.h"

#include <algorithm>
#include <limits>
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
  residency_ = PlanResidency(needs_, Budget());
  MoveTogether(stage_.plan.streaming.moved, needs_, residency_);
  places_.assign(residency_.fetches.size(), -1);
  last_use_.assign(residency_.fetches.size(), -1);
  for (size_t n = 0; n < needs_.size(); ++n) {
    last_use_[residency_.fetch_of_need[n]] = needs_[n].use;  // they ascend
  }
}

int64_t Parameters::Budget() const {
  const Streaming& streaming = stage_.plan.streaming;
  const int64_t ahead = stage_.plan.prefetch_bytes;
  const LayerBytes bytes = MostBytes();
  if (streaming.resident > 0) return streaming.resident * bytes.between + bytes.first_or_last;
  if (streaming.resident == Streaming::kAllButOne) return AllBytes() - bytes.between;
  if (streaming.resident == Streaming::kOneUse) return BytesOfUsesInARow(needs_, 1);
  return ahead < 0 ? BytesOfUsesInARow(needs_, 3) : BytesOfUsesInARow(needs_, 1) + ahead;
}

int64_t Parameters::AllBytes() const {
  return BytesOfUsesInARow(needs_, std::numeric_limits<int>::max());
}

Parameters::LayerBytes Parameters::MostBytes() const {
  LayerBytes most;
  for (size_t u = 0; u < uses_.size(); ++u) {
    int64_t bytes = 0;
    for (const int need : needs_of_use_[u]) bytes += needs_[need].bytes;
    const int last = static_cast<int>(stage_.graph.layers.size()) - 1;
    const bool between = uses_[u].layer > 0 && uses_[u].layer < last;
    int64_t& largest = between ? most.between : most.first_or_last;
    largest = std::max(largest, bytes);
  }
  return most.between > 0 ? most : LayerBytes{.between = most.first_or_last};
}

void Parameters::Before(int use) {
  while (next_fetch_ < residency_.fetches.size() && residency_.fetches[next_fetch_].before <= use) {
    places_[next_fetch_] = Bring(needs_[residency_.fetches[next_fetch_].need]);
    ++next_fetch_;
  }
}

void Parameters::After(int use) {
  for (const int need : needs_of_use_[use]) {
    const SetPlan& plan = *stage_.sets.Find(needs_[need].set);
    const int fetch = residency_.fetch_of_need[need];
    if (plan.parameters != Home::kUnified || last_use_[fetch] != use) continue;
    const Need& first = needs_[residency_.fetches[fetch].need];
    const int position = static_cast<int>(&plan - stage_.sets.sets.data());
    transfers_.Move(Whole(places_[fetch], first.bytes), state_.Parameters(position),
                    Purpose::kFetch, What(first));
  }
}

std::string Parameters::What(const Need& need) const {
  const SetPlan& plan = *stage_.sets.Find(need.set);
  return absl::StrCat(stage_.SetOf(plan).name, " micro ", uses_[need.use].micro_batch);
}

int Parameters::Bring(const Need& need) {
  const SetPlan& plan = *stage_.sets.Find(need.set);
  const int position = static_cast<int>(&plan - stage_.sets.sets.data());
  const std::string what = What(need);
  const bool gathered = plan.parameter_parts > 1;
  const int place = stage_.AddPlace(absl::StrCat(gathered ? "gathered " : "fetched ", what),
                                    plan.parameters, SlotClass::kParameters, need.bytes);
  Operand own = state_.Parameters(position);
  if (plan.parameters != Home::kDevice) {
    const Operand to = gathered ? stage_.OwnPart(stage_.plan.shard_group(), place, need.bytes)
                                : Whole(place, need.bytes);
    transfers_.Move(own, to, Purpose::kFetch, what);
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
