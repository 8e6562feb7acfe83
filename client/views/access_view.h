// Who one is, as people and programs see it.
#ifndef STRATA_CLIENT_VIEWS_ACCESS_VIEW_H_
#define STRATA_CLIENT_VIEWS_ACCESS_VIEW_H_

#include <string>
#include <vector>

#include "client/views/structured.h"
#include "proto/strata/v1/access.pb.h"

namespace strata::client {

// {identity, by, groups: [NAME], roles: [{role, project}]}; project "*": all.
Json ToJson(const v1::Identity& identity);
// {sequence, time, identity, peer, method, resource, outcome, reason,
// request_id, certificate}.
Json ToJson(const v1::AuditRecord& record);
// AGE IDENTITY METHOD RESOURCE OUTCOME REASON. `now`: seconds since 1970.
std::string AuditTable(const std::vector<v1::AuditRecord>& records, double now);

// "users/ann (by unix)", then its groups and roles, a line each.
std::string IdentityText(const v1::Identity& identity);

}  // namespace strata::client

#endif  // STRATA_CLIENT_VIEWS_ACCESS_VIEW_H_
