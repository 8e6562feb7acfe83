// How far predicted steps were off, by family of plans, as people and programs see it.
#ifndef STRATA_CLIENT_VIEWS_PLAN_FAMILY_VIEW_H_
#define STRATA_CLIENT_VIEWS_PLAN_FAMILY_VIEW_H_

#include <string>

#include "client/views/structured.h"
#include "planner/plan_family.h"

namespace strata::client {

// [{workload, layout, ratio, steps, terms: {NAME: {measured_seconds, predicted_seconds}},
// update_time}]; ratio: of measured to predicted seconds.
Json PlanFamiliesJson(const planner::LearnedFamilies& families);

// MEASURED/PREDICTED STEPS AGE LAYOUT, under each workload. `now`: seconds since 1970.
std::string PlanFamiliesTable(const planner::LearnedFamilies& families, double now);

}  // namespace strata::client

#endif  // STRATA_CLIENT_VIEWS_PLAN_FAMILY_VIEW_H_
