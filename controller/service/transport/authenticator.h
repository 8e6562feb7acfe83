// Who makes a call: the one place where transports become identities.
#ifndef STRATA_CONTROLLER_SERVICE_TRANSPORT_AUTHENTICATOR_H_
#define STRATA_CONTROLLER_SERVICE_TRANSPORT_AUTHENTICATOR_H_

#include <functional>

#include "absl/status/statusor.h"
#include "controller/access/identity.h"
#include "grpcpp/server_context.h"

namespace strata::controller {

class Authenticator {
 public:
  // Unauthenticated: why nobody can be seen behind what the caller shows.
  using Done = std::function<void(absl::StatusOr<Identity>)>;

  virtual ~Authenticator() = default;
  // From any thread. Reads `context` before it returns, and not later. Calls `done` once: before it
  // returns when nothing has to be waited for, else on a thread of its own.
  virtual void Authenticate(const grpc::ServerContextBase& context, Done done) = 0;
  // Whether every way in tells who comes: otherwise somebody unprotected may do everything.
  virtual bool tells_callers_apart() const { return true; }
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_TRANSPORT_AUTHENTICATOR_H_
