// Ports for a local cluster's servers.
#ifndef STRATA_CLIENT_LOCAL_CLUSTER_PORTS_H_
#define STRATA_CLIENT_LOCAL_CLUSTER_PORTS_H_

#include <cstdint>
#include <set>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/server_address.h"

namespace strata::client {

// Whether a server could listen there now. AlreadyExists: "HOST:PORT is in use". Sockets that live
// in the file system are taken to be free.
absl::Status CheckPortFree(const ServerAddress& address);

// A free port of `host`, the same one for the same `seed` where possible. Not from the range that
// the system gives to outgoing connections: between a server's death and its restart, a client that
// tries to reach it could be given that very port, connect to itself and keep it.
absl::StatusOr<ServerAddress> ChoosePort(const std::string& host, uint64_t seed,
                                         const std::set<uint16_t>& except);

}  // namespace strata::client

#endif  // STRATA_CLIENT_LOCAL_CLUSTER_PORTS_H_
