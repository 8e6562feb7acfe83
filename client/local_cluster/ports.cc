#include "client/local_cluster/ports.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/small_file.h"

namespace strata::client {
namespace {

// 0, or why nothing can listen there. SO_REUSEADDR as servers set it: connections that have ended
// do not count.
int TryToListen(const addrinfo& target) {
  const int fd = socket(target.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const absl::Cleanup closer = [fd] { close(fd); };
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (bind(fd, target.ai_addr, target.ai_addrlen) != 0) return errno;
  return listen(fd, 1) == 0 ? 0 : errno;
}

// The lowest port that outgoing connections may get.
int FirstEphemeralPort() {
  const std::string range = common::TextOf("/proc/sys/net/ipv4/ip_local_port_range");
  int first = 0;
  const std::string word = range.substr(0, range.find_first_of(" \t"));
  return absl::SimpleAtoi(word, &first) && first > 0 ? first : 32768;
}

}  // namespace

absl::Status CheckPortFree(const ServerAddress& address) {
  if (address.is_unix()) return absl::OkStatus();  // the controller itself sees who is there
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int failed =
      getaddrinfo(address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (failed != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen ", address.ToString(), ": ", gai_strerror(failed)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  const int error = TryToListen(*found);
  if (error == 0) return absl::OkStatus();
  if (error == EADDRINUSE) {
    return absl::AlreadyExistsError(absl::StrCat(
        address.ToString(), " is in use — choose another one with --listen HOST:PORT"));
  }
  return absl::UnknownError(
      absl::StrCat("cannot listen on ", address.ToString(), ": ", std::strerror(error)));
}

absl::StatusOr<ServerAddress> ChoosePort(const std::string& host, uint64_t seed,
                                         const std::set<uint16_t>& except) {
  constexpr int kWanted = 12'000;
  constexpr int kLeast = 1024;
  const int first_ephemeral = FirstEphemeralPort();
  const int end = first_ephemeral > 2 * kLeast ? std::min(first_ephemeral, 32'000) : 65'000;
  const int begin = std::max(kLeast, end - kWanted);
  const int count = end - begin;
  for (int i = 0; i < count; ++i) {
    const auto port = static_cast<uint16_t>(
        begin + static_cast<int>((seed + static_cast<uint64_t>(i)) % static_cast<uint64_t>(count)));
    if (except.count(port) > 0) continue;
    const ServerAddress address = {host, port};
    const absl::Status free = CheckPortFree(address);
    if (free.ok()) return address;
    if (!absl::IsAlreadyExists(free)) return free;
  }
  return absl::ResourceExhaustedError(absl::StrCat("no port of ", host, " is free"));
}

}  // namespace strata::client
