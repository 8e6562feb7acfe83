// HOST:PORT or unix:PATH as the daemon's flags take it.
#ifndef STRATA_CONTROLLER_SERVICE_TRANSPORT_LISTEN_ADDRESS_H_
#define STRATA_CONTROLLER_SERVICE_TRANSPORT_LISTEN_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"

namespace strata::controller {

struct ListenAddress {
  std::string host;  // without brackets
  int port = 0;
  std::string path;  // of a Unix socket; then there is neither host nor port
  bool is_unix() const { return !path.empty(); }
  bool is_loopback() const;      // only this machine reaches it
  std::string ToString() const;  // "127.0.0.1:80", "[::1]:80", "unix:/run/strata.sock"
};

// HOST:PORT, [IPv6]:PORT, unix:PATH. InvalidArgument, naming the text: also for paths that are
// longer than a socket's may be.
absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& text);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_TRANSPORT_LISTEN_ADDRESS_H_
