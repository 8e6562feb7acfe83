// What one policy has that another has not.
#ifndef STRATA_CONTROLLER_LOGIC_POLICY_CHANGES_H_
#define STRATA_CONTROLLER_LOGIC_POLICY_CHANGES_H_

#include <vector>

#include "proto/strata/v1/cluster.pb.h"
#include "proto/strata/v1/policy.pb.h"

namespace strata::controller {

// One per project, per queue, one for scheduling and one for roles, unchanged ones too; both
// policies are complete.
std::vector<v1::PolicyChange> ChangesBetween(const v1::Policy& before, const v1::Policy& after);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_POLICY_CHANGES_H_
