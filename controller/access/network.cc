#include "controller/access/network.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace strata::controller {
namespace {

constexpr size_t kHostBytes = 8;  // of an IPv6 address

std::string TextOf(int family, const void* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return inet_ntop(family, address, text.data(), text.size()) == nullptr ? "" : text.data();
}

std::string NetworkOf(in6_addr address) {
  if (IN6_IS_ADDR_V4MAPPED(&address)) return TextOf(AF_INET, &address.s6_addr[12]);
  std::memset(&address.s6_addr[sizeof(address.s6_addr) - kHostBytes], 0, kHostBytes);
  return absl::StrCat(TextOf(AF_INET6, &address), "/64");
}

}  // namespace

std::string NetworkOf(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    return TextOf(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr);
  }
  if (address.ss_family != AF_INET6) return "";
  return NetworkOf(reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

std::string NetworkOfPeer(absl::string_view peer) {
  const absl::string_view host = peer.substr(0, peer.rfind(':'));
  absl::string_view text = host;
  if (absl::ConsumePrefix(&text, "ipv4:")) return std::string(text);
  in6_addr address{};
  const std::string plain = absl::StrReplaceAll(absl::StripPrefix(host, "ipv6:"),
                                                {{"%5B", ""}, {"%5D", ""}, {"[", ""}, {"]", ""}});
  const std::string unscoped = plain.substr(0, plain.find('%'));
  return inet_pton(AF_INET6, unscoped.c_str(), &address) == 1 ? NetworkOf(address)
                                                              : std::string(peer);
}

}  // namespace strata::controller
