#include "controller/service/transport/listen_address.h"

#include <sys/un.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace strata::controller {
namespace {

constexpr char kUnix[] = "unix:";
constexpr size_t kLongestPath = sizeof(sockaddr_un::sun_path) - 1;

absl::StatusOr<ListenAddress> ParseSocketPath(const std::string& text) {
  ListenAddress address;
  address.path = text.substr(sizeof(kUnix) - 1);
  if (address.path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(text, ": the path is missing"));
  }
  if (address.path.size() > kLongestPath) {
    return absl::InvalidArgumentError(absl::StrCat(text, ": the path is ", address.path.size(),
                                                   " bytes long, and a socket's is ", kLongestPath,
                                                   " at most: choose a shorter one"));
  }
  return address;
}

}  // namespace

bool ListenAddress::is_loopback() const {
  return is_unix() || host == "localhost" || host == "::1" || absl::StartsWith(host, "127.");
}

std::string ListenAddress::ToString() const {
  if (is_unix()) return absl::StrCat(kUnix, path);
  const bool brackets = host.find(':') != std::string::npos;
  return absl::StrCat(brackets ? "[" : "", host, brackets ? "]" : "", ":", port);
}

absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& text) {
  if (absl::StartsWith(text, kUnix)) return ParseSocketPath(text);
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
      absl::StrCat(text, " is no address: use HOST:PORT, such as 127.0.0.1:7070, or unix:PATH"));
}

}  // namespace strata::controller
