#include "controller/service/listen_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace strata::controller {

bool ListenAddress::is_loopback() const {
  return host == "localhost" || host == "::1" || absl::StartsWith(host, "127.");
}

std::string ListenAddress::ToString() const {
  const bool brackets = host.find(':') != std::string::npos;
  return absl::StrCat(brackets ? "[" : "", host, brackets ? "]" : "", ":", port);
}

absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& text) {
  ListenAddress address;
  const size_t colon = text.rfind(':');
  if (colon != std::string::npos && absl::SimpleAtoi(text.substr(colon + 1), &address.port) &&
      address.port >= 0 && address.port <= 65535) {
    address.host = text.substr(0, colon);
    const bool brackets = absl::StartsWith(address.host, "[") && absl::EndsWith(address.host, "]");
    if (brackets) address.host = address.host.substr(1, address.host.size() - 2);
    const bool bare_colons = !brackets && address.host.find(':') != std::string::npos;
    if (!address.host.empty() && !bare_colons) return address;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(text, " is no address: use HOST:PORT, such as 127.0.0.1:7070"));
}

absl::Status WhyNot(const ListenAddress& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int code =
      getaddrinfo(address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &list);
  if (code != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(address.ToString(), ": ", gai_strerror(code)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
  const int descriptor =
      socket(list->ai_family, list->ai_socktype | SOCK_CLOEXEC, list->ai_protocol);
  const int one = 1;
  const bool bound =
      descriptor >= 0 && setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
      bind(descriptor, list->ai_addr, list->ai_addrlen) == 0 && listen(descriptor, 1) == 0;
  const int error = bound ? 0 : errno;
  if (descriptor >= 0) close(descriptor);
  if (error == EADDRINUSE) {
    return absl::FailedPreconditionError(absl::StrCat(address.ToString(), " is in use"));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      address.ToString(), ": ", error == 0 ? "nothing could listen there" : strerror(error)));
}

}  // namespace strata::controller
