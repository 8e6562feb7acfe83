// The texts in this folder, as one v1::HardwareCatalog.
#ifndef STRATA_PLANNER_PROFILES_SHIPPED_PROFILES_H_
#define STRATA_PLANNER_PROFILES_SHIPPED_PROFILES_H_

namespace strata::planner {

extern const char kShippedProfiles[];

}  // namespace strata::planner

#endif  // STRATA_PLANNER_PROFILES_SHIPPED_PROFILES_H_
