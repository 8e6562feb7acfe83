// Who makes a call, and whether it may.
#ifndef STRATA_CONTROLLER_SERVICE_CALLS_CALLER_H_
#define STRATA_CONTROLLER_SERVICE_CALLS_CALLER_H_

#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "controller/access/identity.h"
#include "controller/access/roles.h"
#include "controller/logic/core.h"

namespace strata::controller {

struct Caller {
  Identity identity;
  std::string peer;  // the address it comes from, as gRPC writes it
  Rights rights;     // under the policy of the moment; set by Authorise

  bool Sees(const v1::JobSpec& spec) const;  // a job of this spec
  // Whether it may do `method`, which no single job was named for, to this one.
  bool May(absl::string_view method, const v1::JobRecord& job) const;
};

// Whether the caller may do `method` to what `request` names: a job (`name`, `parent` or
// `job.name`), a node, the project of a new job. On the reactor's thread, as the policy and the job
// are then those that the call meets. PermissionDenied (ROLE_REQUIRED) or Unauthenticated
// (IDENTITY_REQUIRED), with what to do. Jobs that the caller may not see and jobs that do not exist
// are refused alike.
absl::Status Authorise(const Core& core, const std::vector<std::string>& standing_admins,
                       const char* method, const google::protobuf::Message& request,
                       Caller& caller);

// The job or node that a request names (`name`, `parent`, `job.name`); empty: none by itself.
std::string NamedBy(const google::protobuf::Message& request);

// What Authorise answers for a decision.
absl::Status ToStatus(const Decision& decision);

// The node without what its caller may not know: which jobs of other projects it has.
void HideJobs(const Snapshot& snapshot, const Caller& caller, v1::Node& node);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_CALLS_CALLER_H_
