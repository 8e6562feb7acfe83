// HOST:PORT as the daemon's flags take it.
#ifndef STRATA_CONTROLLER_SERVICE_LISTEN_ADDRESS_H_
#define STRATA_CONTROLLER_SERVICE_LISTEN_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"

namespace strata::controller {

struct ListenAddress {
  std::string host;  // without brackets
  int port = 0;
  bool is_loopback() const;
  std::string ToString() const;  // "127.0.0.1:80", "[::1]:80"
};

// HOST:PORT, [IPv6]:PORT. InvalidArgument, naming the text.
absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& text);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_LISTEN_ADDRESS_H_
