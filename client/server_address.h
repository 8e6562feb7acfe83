// The address of the controller, and where it is known from.
#ifndef STRATA_CLIENT_SERVER_ADDRESS_H_
#define STRATA_CLIENT_SERVER_ADDRESS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace strata::client {

struct ServerAddress {
  std::string host;
  uint16_t port = 0;
  std::string path = {};  // of a Unix socket; then there is neither host nor port
  // As gRPC takes it: "127.0.0.1:7070", "[::1]:7070", "unix:/run/strata.sock".
  std::string ToString() const;
  bool is_unix() const { return !path.empty(); }
  bool is_loopback() const;  // only this machine reaches it
  // How this machine reaches a server that listens there: 0.0.0.0 is no place to connect to.
  ServerAddress Reached() const;
};

// Of a Unix socket's path, in bytes.
inline constexpr size_t kLongestSocketPath = 107;

// HOST:PORT, [IPv6]:PORT, unix:PATH. InvalidArgument, naming the text.
absl::StatusOr<ServerAddress> ParseServerAddress(absl::string_view text);

// The file below $XDG_STATE_HOME (else $HOME/.local/state) that remembers the last `strata up`;
// empty when neither is set.
std::string RememberedServerFile();

// The last `strata up`: what ResolveServer falls back on, and what `strata down` ends.
struct RememberedCluster {
  std::string server;     // as ServerAddress::ToString
  std::string directory;  // of its state
};
// Empty fields when there is none.
RememberedCluster ReadRememberedCluster();
// Unknown: the file could not be written; says which.
absl::Status RememberCluster(const RememberedCluster& cluster);
void ForgetCluster();

// `flag` (--server) if not empty, else STRATA_SERVER, else the last `strata up`. Unavailable when
// none is known.
absl::StatusOr<ServerAddress> ResolveServer(absl::string_view flag);

}  // namespace strata::client

#endif  // STRATA_CLIENT_SERVER_ADDRESS_H_
