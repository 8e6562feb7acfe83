// What steps took beside what was predicted of them, of all jobs whose predictions err alike
// (planner/plan_family.h).
#ifndef STRATA_CONTROLLER_LOGIC_PLAN_FAMILIES_H_
#define STRATA_CONTROLLER_LOGIC_PLAN_FAMILIES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "controller/logic/effects.h"
#include "planner/step_comparison.h"

namespace strata::controller {

// Durable: table "plan_families", key: WORKLOAD; LAYOUT.
class PlanFamilies {
 public:
  static constexpr char kTable[] = "plan_families";
  static constexpr size_t kMost = 256;  // beyond it the one goes that was not heard of for longest

  // One record of the table; false: it cannot be read.
  bool Restore(const Write& write);
  void Learn(const planner::FamilyKey& family, const planner::ComparedSteps& steps, double wall,
             Effects& effects);

  // By workload, then layout.
  const std::map<std::pair<std::string, std::string>, v1::PlanFamily>& all() const { return all_; }
  planner::LearnedFamilies ToList() const;
  int64_t version() const { return version_; }  // another one whenever any of them has changed

 private:
  void DropOldest(Effects& effects);

  std::map<std::pair<std::string, std::string>, v1::PlanFamily> all_;
  int64_t version_ = 0;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_PLAN_FAMILIES_H_
