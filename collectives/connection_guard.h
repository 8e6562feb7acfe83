// Keeps strangers out of the TCP connections that UCX makes and accepts. UCX has no notion of who
// connects: whoever reaches a rank's port may send it messages. So the socket calls of UCX pass
// through here (connection_guard.cc defines the few that it makes, which the dynamic linker prefers
// to libc's): a connection is UCX's only after its first bytes have proven that both ends are ranks
// of this start of the job (connection_mark.h). Other sockets of the process are not touched, and
// neither is a connection after its first bytes.
#ifndef STRATA_COLLECTIVES_CONNECTION_GUARD_H_
#define STRATA_COLLECTIVES_CONNECTION_GUARD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/connection_mark.h"

namespace strata::collectives {

// Of one rank. Its methods belong to one thread.
class ConnectionGuard {
 public:
  ConnectionGuard();
  ~ConnectionGuard();
  ConnectionGuard(const ConnectionGuard&) = delete;
  ConnectionGuard& operator=(const ConnectionGuard&) = delete;

  // What this thread listens on between these is this guard's: nobody is accepted before Admit.
  void BeginListening();
  void EndListening();
  // Where it listens: opaque bytes, one for each socket.
  std::vector<std::string> listeners() const;

  // From now on the ranks of `key` may connect, and connections to `listeners` (by rank, as their
  // listeners() say) carry this rank's mark.
  void Admit(const WorldKey& key, int rank, const std::vector<std::vector<std::string>>& listeners);

  // Connections that were refused; each is told on stderr with its address, of many the first.
  int64_t refused() const;
};

}  // namespace strata::collectives

#endif  // STRATA_COLLECTIVES_CONNECTION_GUARD_H_
