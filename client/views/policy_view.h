// Projects, queues and changes of policies as people and programs see them.
#ifndef STRATA_CLIENT_VIEWS_POLICY_VIEW_H_
#define STRATA_CLIENT_VIEWS_POLICY_VIEW_H_

#include <string>

#include "client/views/structured.h"
#include "proto/strata/v1/cluster.pb.h"

namespace strata::client {

// As in its file.
Json PolicyJson(const v1::Policy& policy);

// Lists of {name, description, quota: {KIND: devices}, used: {KIND: devices}, active_jobs,
// queued_jobs}, and of {name, description, priority, max_devices, used, active_jobs, queued_jobs}.
// `name`: only that one; empty: all. In the policy's order.
Json ProjectsJson(const v1::GetPolicyResponse& policy, const std::string& name);
Json QueuesJson(const v1::GetPolicyResponse& policy, const std::string& name);

// NAME USED/QUOTA ACTIVE QUEUED DESCRIPTION, and NAME PRIORITY USED/MOST ACTIVE QUEUED DESCRIPTION,
// of the lists above.
std::string ProjectTable(const Json& projects);
std::string QueueTable(const Json& queues);

// {policy: PolicyJson, changes: [{kind, name, change: created, detail}]}.
Json ToJson(const v1::ApplyPolicyResponse& applied);
// "project/nlp created", "queue/urgent changed: priority 0 -> 5", "scheduling unchanged".
std::string ChangesText(const v1::ApplyPolicyResponse& applied);

}  // namespace strata::client

#endif  // STRATA_CLIENT_VIEWS_POLICY_VIEW_H_
