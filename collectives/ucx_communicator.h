// Ranks that are processes, on one machine or several, over UCX (shared memory, TCP, …).
//
// Joining has two halves, because addresses travel by the caller's own means:
//   ASSIGN_OR_RETURN(auto endpoint, UcxEndpoint::Create({}));
//   const std::string mine = endpoint->Address();                 // exchange these: all[r] is rank
//   r's
//   ASSIGN_OR_RETURN(auto communicator,
//                    UcxEndpoint::Connect(std::move(endpoint), rank, all, key));
#ifndef STRATA_COLLECTIVES_UCX_COMMUNICATOR_H_
#define STRATA_COLLECTIVES_UCX_COMMUNICATOR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/connection_mark.h"

namespace strata::collectives {

struct UcxOptions {
  std::string transports = "sm,tcp,self";  // UCX_TLS: "tcp,self" for TCP alone
  std::string devices;                     // UCX_NET_DEVICES, such as "eth0"; empty: UCX chooses
  int max_operations = 64;                 // in flight at once
};

class UcxEndpoint {
 public:
  virtual ~UcxEndpoint() = default;

  // Opens UCX. What UcxOptions sets overrides the environment's UCX_* variables; UCX itself keeps a
  // thread for TCP timers, which sleeps.
  static absl::StatusOr<std::unique_ptr<UcxEndpoint>> Create(const UcxOptions& options);

  // This rank's worker address: opaque bytes of a few hundred, not text.
  virtual std::string Address() const = 0;

  // Consumes the endpoint. `addresses[r]` is rank r's, this rank's own included; empty for ranks
  // that this one exchanges no messages with. Connections are made when a group is created and
  // become real with the first message. Over TCP each begins with
  // the proof that both ends know `key`: who does not is refused, and told on stderr. Shared memory
  // is the kernel's to guard: it lets nobody in but this user.
  static absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      std::unique_ptr<UcxEndpoint> endpoint, int rank, const std::vector<std::string>& addresses,
      const WorldKey& key);
};

}  // namespace strata::collectives

#endif  // STRATA_COLLECTIVES_UCX_COMMUNICATOR_H_
