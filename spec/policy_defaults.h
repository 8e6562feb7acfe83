// What a policy says where nobody has said anything.
#ifndef STRATA_SPEC_POLICY_DEFAULTS_H_
#define STRATA_SPEC_POLICY_DEFAULTS_H_

#include <string>

#include "proto/strata/v1/policy.pb.h"

namespace strata::spec {

// The project and the queue that always exist, and that jobs belong to which name none.
inline constexpr char kDefaultName[] = "default";

// The roles of RoleBinding: those in one project or in all, and those of the whole cluster.
bool IsProjectRole(const std::string& role);
bool IsClusterRole(const std::string& role);

// Every field but descriptions, the buffer and ttl_after_finished_seconds is present, "default"
// exists, projects and queues are in the order of their names.
v1::Policy CompletePolicy(v1::Policy policy);

}  // namespace strata::spec

#endif  // STRATA_SPEC_POLICY_DEFAULTS_H_
