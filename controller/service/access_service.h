// strata.v1.AccessService over gRPC: who callers are, how nodes become known, and what was done by
// whom.
#ifndef STRATA_CONTROLLER_SERVICE_ACCESS_SERVICE_H_
#define STRATA_CONTROLLER_SERVICE_ACCESS_SERVICE_H_

#include <memory>

#include "controller/service/calls/calls.h"
#include "controller/service/enrolment.h"
#include "grpcpp/impl/service_type.h"

namespace strata::controller {

std::unique_ptr<grpc::Service> MakeAccessService(const CallEnvironment& environment,
                                                 Enroller enroller);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_ACCESS_SERVICE_H_
