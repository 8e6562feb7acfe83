// Where callers come from, as far as it costs them something to come from elsewhere.
#ifndef STRATA_CONTROLLER_ACCESS_NETWORK_H_
#define STRATA_CONTROLLER_ACCESS_NETWORK_H_

#include <sys/socket.h>

#include <string>

#include "absl/strings/string_view.h"

namespace strata::controller {

// "192.0.2.1", "2001:db8::/64": an IPv6 host chooses the lower half itself. Empty: it is neither.
std::string NetworkOf(const sockaddr_storage& address);
// The same of a peer as gRPC writes it: "ipv4:192.0.2.1:41234", "ipv6:%5B2001:db8::1%5D:41234".
// Others are their own network.
std::string NetworkOfPeer(absl::string_view peer);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_ACCESS_NETWORK_H_
