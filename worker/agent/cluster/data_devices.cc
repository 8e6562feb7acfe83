#include "worker/agent/cluster/data_devices.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "worker/agent/machine/descriptor.h"

namespace strata::worker {
namespace {

// Whether two addresses are the same but for their ports.
bool SameHost(const sockaddr& a, const sockaddr& b) {
  if (a.sa_family != b.sa_family) return false;
  if (a.sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(a).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(b).sin_addr.s_addr;
  }
  return a.sa_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6&>(a).sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(b).sin6_addr, sizeof(in6_addr)) == 0;
}

std::string InterfaceOf(const sockaddr& own) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return "";
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(first, freeifaddrs);
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr != nullptr && SameHost(*each->ifa_addr, own)) return each->ifa_name;
  }
  return "";
}

}  // namespace

absl::StatusOr<std::string> InterfaceTo(const std::string& address) {
  const size_t colon = address.rfind(':');
  const std::string port = colon == std::string::npos ? "" : address.substr(colon + 1);
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* first = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &first);
  if (error != 0) return absl::NotFoundError(absl::StrCat(host, ": ", gai_strerror(error)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(first, freeaddrinfo);
  for (const addrinfo* each = first; each != nullptr; each = each->ai_next) {
    // Connecting a datagram socket chooses the way, and with it the own address.
    const Descriptor file(socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own = {};
    socklen_t size = sizeof(own);
    if (!file.is_open() || connect(file.get(), each->ai_addr, each->ai_addrlen) != 0 ||
        getsockname(file.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) {
      continue;
    }
    const std::string name = InterfaceOf(reinterpret_cast<const sockaddr&>(own));
    if (!name.empty()) return name;
  }
  return absl::NotFoundError(absl::StrCat(address, ": this machine has no way to it"));
}

}  // namespace strata::worker
