// Connections of this process to an address of this machine's own network (127.0.0.0/8) come from
// several addresses of it in turn, as those of many machines would: a controller that knows its
// callers gives one address no more than half of its files. gRPC cannot be told which address to
// come from, so the system's call is wrapped here, for the whole program.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>

namespace strata::bench {
namespace {

constexpr uint32_t kSources = 8;

bool IsLoopback(in_addr address) { return (ntohl(address.s_addr) >> 24) == 127; }

// 127.0.0.1 and those after it, in turn.
in_addr NextSource() {
  static std::atomic<uint32_t> last{0};
  in_addr source = {};
  source.s_addr = htonl(INADDR_LOOPBACK + last++ % kSources);
  return source;
}

bool IsStream(int file) {
  int type = 0;
  socklen_t size = sizeof(type);
  return getsockopt(file, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

// Where a socket is to come from does not matter so much that it should fail for it.
void Bind(int file, const sockaddr* to, socklen_t size) {
  if (!IsStream(file)) return;  // datagrams are how the resolver finds out what can be reached
  if (to->sa_family == AF_INET && size >= sizeof(sockaddr_in)) {
    if (!IsLoopback(reinterpret_cast<const sockaddr_in*>(to)->sin_addr)) return;
    sockaddr_in from = {};
    from.sin_family = AF_INET;
    from.sin_addr = NextSource();
    static_cast<void>(bind(file, reinterpret_cast<const sockaddr*>(&from), sizeof(from)));
  } else if (to->sa_family == AF_INET6 && size >= sizeof(sockaddr_in6)) {
    const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(to)->sin6_addr;
    if (!IN6_IS_ADDR_V4MAPPED(&address)) return;
    in_addr mapped = {};
    std::memcpy(&mapped, &address.s6_addr[12], sizeof(mapped));
    if (!IsLoopback(mapped)) return;
    mapped = NextSource();
    sockaddr_in6 from = {};
    from.sin6_family = AF_INET6;
    from.sin6_addr = address;
    std::memcpy(&from.sin6_addr.s6_addr[12], &mapped, sizeof(mapped));
    static_cast<void>(bind(file, reinterpret_cast<const sockaddr*>(&from), sizeof(from)));
  }
}

}  // namespace
}  // namespace strata::bench

extern "C" int connect(int file, const sockaddr* to, socklen_t size) {
  strata::bench::Bind(file, to, size);
  return static_cast<int>(syscall(SYS_connect, file, to, size));
}
