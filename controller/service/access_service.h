// strata.v1.AccessService over gRPC: who callers are, and what was done by whom.
#ifndef STRATA_CONTROLLER_SERVICE_ACCESS_SERVICE_H_
#define STRATA_CONTROLLER_SERVICE_ACCESS_SERVICE_H_

#include <memory>

#include "controller/service/calls.h"
#include "grpcpp/impl/service_type.h"

namespace strata::controller {

std::unique_ptr<grpc::Service> MakeAccessService(const CallEnvironment& environment);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_ACCESS_SERVICE_H_
