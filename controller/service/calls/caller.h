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

  // By which limits know it: its identity, or the network of a caller without one.
  std::string Key() const;
  bool Sees(const v1::JobSpec& spec) const;  // a job of this spec
  // Whether it may do `method`, which no single job was named for, to this one.
  bool May(absl::string_view method, const v1::JobRecord& job) const;
};

// Unauthenticated (REVOKED, NODE_REMOVED): the policy does not believe it any more, or it is a node
// that was deleted after its certificate was given.
absl::Status CheckBelieved(const Core& core, const Identity& identity);

// Whether the caller may do `method` to what `request` names: a job (`name`, `parent` or
// `job.name`), a node, the project of a new job. On the reactor's thread, as the policy and the job
// are then those that the call meets. PermissionDenied (ROLE_REQUIRED) or Unauthenticated
// (IDENTITY_REQUIRED), with what to do. Jobs that the caller may not see and jobs that do not exist
// are refused alike. First CheckBelieved.
absl::Status Authorise(const Core& core, const std::vector<std::string>& standing_admins,
                       const char* method, const google::protobuf::Message& request,
                       Caller& caller);

// The same of nodes and callers without any role, for whom it matters not what is there: from any
// thread.
absl::Status AuthoriseStranger(const Rights& rights, const char* method,
                               const google::protobuf::Message& request);

// The job or node that a request names (`name`, `parent`, `job.name`); empty: none by itself.
std::string NamedBy(const google::protobuf::Message& request);

// What Authorise answers for a decision.
absl::Status ToStatus(const Decision& decision);

// The node without what its caller may not know: which jobs of other projects it has.
void HideJobs(const Snapshot& snapshot, const Caller& caller, v1::Node& node);
// Likewise the reason why a job waits or was stopped, and the explanation of it: names of jobs that
// the caller may not see become "a job of another project".
void HideJobs(const Snapshot& snapshot, const Caller& caller, v1::Job& job);
void HideJobs(const Snapshot& snapshot, const Caller& caller, v1::ExplainJobResponse& explained);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_CALLS_CALLER_H_
