// Ranks that are processes, on one machine or several: those of one host exchange through memory
// they share, others over UCX (TCP, …).
//
// Joining has two halves, because addresses travel by the caller's own means:
//   ASSIGN_OR_RETURN(auto endpoint, ProcessEndpoint::Create({}));
//   const std::string mine = endpoint->Address();      // exchange these: all[r] is rank r's
//   ASSIGN_OR_RETURN(auto communicator,
//                    ProcessEndpoint::Connect(std::move(endpoint), rank, all, key));
#ifndef STRATA_COLLECTIVES_PROCESS_ENDPOINT_H_
#define STRATA_COLLECTIVES_PROCESS_ENDPOINT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/connection_mark.h"

namespace strata::collectives {

struct ProcessOptions {
  std::string transports = "tcp,self";  // UCX_TLS
  std::string devices;                  // UCX_NET_DEVICES, such as "eth0"; empty: UCX chooses
  int max_operations = 64;              // in flight at once; at most 120
  // Off, for tests and comparisons: ranks of one host use UCX too. With "sm" among its transports,
  // UCX 1.13 does not notice that one of them ended.
  bool shared_memory = true;
  // Off, for tests: as where the kernel lets no process read another one's memory.
  bool direct = true;
};

class ProcessEndpoint {
 public:
  virtual ~ProcessEndpoint() = default;

  // Opens UCX and, if ranks of this host are to meet in memory, a Unix socket. What ProcessOptions
  // sets overrides the environment's UCX_* variables; UCX itself keeps a thread for TCP timers,
  // which sleeps. InvalidArgument: max_operations; else Unavailable.
  static absl::StatusOr<std::unique_ptr<ProcessEndpoint>> Create(const ProcessOptions& options);

  // This rank's address: opaque bytes of a few hundred, not text.
  virtual std::string Address() const = 0;

  // Consumes the endpoint. `addresses[r]` is rank r's, this rank's own included; empty for ranks
  // that this one exchanges no messages with. Connections are made when a group is created and
  // become real with the first message. Each begins with the proof that both ends know `key`: who
  // does not is refused, and told on stderr, as is another user of this host.
  static absl::StatusOr<std::unique_ptr<Communicator>> Connect(
      std::unique_ptr<ProcessEndpoint> endpoint, int rank,
      const std::vector<std::string>& addresses, const WorldKey& key);
};

}  // namespace strata::collectives

#endif  // STRATA_COLLECTIVES_PROCESS_ENDPOINT_H_
