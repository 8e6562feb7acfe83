#include "controller/logic/plan_families.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace strata::controller {
namespace {

std::string KeyOf(const v1::PlanFamily& family) {
  return absl::StrCat(family.workload(), "; ", family.layout());
}

}  // namespace

bool PlanFamilies::Restore(const Write& write) {
  v1::PlanFamily family;
  if (!family.ParseFromString(write.value) || KeyOf(family) != write.key) return false;
  std::pair key(family.workload(), family.layout());
  all_[std::move(key)] = std::move(family);
  ++version_;
  return true;
}

void PlanFamilies::Learn(const planner::FamilyKey& key, const planner::ComparedSteps& steps,
                         double wall, Effects& effects) {
  const std::pair name(key.workload, key.layout);
  if (!all_.contains(name) && all_.size() >= kMost) DropOldest(effects);
  v1::PlanFamily& family = all_[name];
  planner::Learn(key, steps, wall, family);
  ++version_;
  effects.writes.push_back({kTable, KeyOf(family), family.SerializeAsString()});
}

planner::LearnedFamilies PlanFamilies::ToList() const {
  planner::LearnedFamilies list;
  for (const auto& [name, family] : all_) *list.Add() = family;
  return list;
}

void PlanFamilies::DropOldest(Effects& effects) {
  const auto oldest = std::min_element(all_.begin(), all_.end(), [](const auto& a, const auto& b) {
    return a.second.update_time().seconds() < b.second.update_time().seconds();
  });
  effects.writes.push_back({kTable, KeyOf(oldest->second), "", true});
  all_.erase(oldest);
}

}  // namespace strata::controller
