// The rules of check_plan.h one by one, and the search for a plan that keeps them all.
#ifndef STRATA_PROGRAM_COMPOSE_PLAN_RULES_H_
#define STRATA_PROGRAM_COMPOSE_PLAN_RULES_H_

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "program/compose/check_plan.h"

namespace strata::program {

// In the order in which problems are told, and mended.
enum Rule { kShards, kBatch, kTensor, kContext, kStages, kSchedule, kExperts, kRecompute };
inline constexpr int kRuleCount = 8;

// By rule; without `instead`.
using BrokenRules = std::array<std::optional<PlanProblem>, kRuleCount>;
BrokenRules FindBroken(const PlanShape& plan, const std::vector<std::string>& savable);

// Fills in `instead`.
void SuggestLegal(const PlanShape& plan, const std::vector<std::string>& savable,
                  BrokenRules& broken);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_PLAN_RULES_H_
