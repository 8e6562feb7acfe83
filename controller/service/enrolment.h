// Certificates for nodes, and the tokens that let them have their first one.
#ifndef STRATA_CONTROLLER_SERVICE_ENROLMENT_H_
#define STRATA_CONTROLLER_SERVICE_ENROLMENT_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "controller/logic/core.h"
#include "controller/service/calls/caller.h"
#include "proto/strata/v1/access.pb.h"
#include "security/authority.h"

namespace strata::controller {

// AccessService's methods of these names, on the reactor's thread. `now`: Unix time, in seconds.
class Enroller {
 public:
  // `authority`: null, where this controller signs nothing: then all but lists are refused
  // (FAILED_PRECONDITION, NO_AUTHORITY).
  Enroller(std::unique_ptr<security::Authority> authority, double certificate_seconds)
      : authority_(std::move(authority)), certificate_seconds_(certificate_seconds) {}

  absl::Status Enroll(Core& core, Effects& effects, const Caller& caller, double now,
                      const v1::EnrollNodeRequest& request, v1::EnrollNodeResponse* response) const;
  absl::Status CreateToken(Core& core, Effects& effects, const Caller& caller, double now,
                           const v1::CreateJoinTokenRequest& request, v1::JoinToken* token) const;
  absl::Status ListTokens(const Core& core, const v1::ListJoinTokensRequest& request,
                          v1::ListJoinTokensResponse* response) const;
  absl::Status DeleteToken(Core& core, Effects& effects,
                           const v1::DeleteJoinTokenRequest& request) const;

 private:
  absl::Status CheckAuthority() const;
  v1::JoinToken Show(const v1::JoinTokenRecord& record) const;

  std::unique_ptr<security::Authority> authority_;
  double certificate_seconds_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_ENROLMENT_H_
