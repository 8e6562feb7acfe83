#include "controller/service/acceptor.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::controller {
namespace {

constexpr int kBacklog = 4096;
constexpr auto kPause = std::chrono::milliseconds(10);  // after an accept() that failed

// The number of the first file that is not for connections: the kernel gives the lowest free one.
int MostFiles() {
  struct rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return Acceptor::kReservedFiles;
  const int most = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 30));
  return std::max(most - Acceptor::kReservedFiles, most / 2);
}

// A listening socket, or -1 with errno.
int ListenOn(const addrinfo& at) {
  const int file =
      socket(at.ai_family, at.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at.ai_protocol);
  if (file < 0) return -1;
  const int one = 1;
  if (setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
      bind(file, at.ai_addr, at.ai_addrlen) == 0 && listen(file, kBacklog) == 0) {
    return file;
  }
  const int error = errno;
  close(file);
  errno = error;
  return -1;
}

int PortOf(int file) {
  sockaddr_storage bound = {};
  socklen_t size = sizeof(bound);
  if (getsockname(file, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                           : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Listen(const ListenAddress& address) {
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
  int listener = -1;
  int error = 0;
  for (const addrinfo* at = list; at != nullptr && listener < 0; at = at->ai_next) {
    listener = ListenOn(*at);
    if (listener < 0) error = errno;
  }
  if (listener < 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        address.ToString(), error == EADDRINUSE ? std::string(" is in use")
                                                : absl::StrCat(": ", std::strerror(error))));
  }
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) {
    close(listener);
    return absl::InternalError(absl::StrCat("eventfd: ", std::strerror(errno)));
  }
  ListenAddress bound = address;
  bound.port = PortOf(listener);
  return std::unique_ptr<Acceptor>(new Acceptor(bound, listener, wake));
}

void Acceptor::Begin(Take take) {
  take_ = std::move(take);
  thread_ = std::thread([this] { Run(); });
}

Acceptor::~Acceptor() {
  const uint64_t one = 1;
  static_cast<void>(!write(wake_, &one, sizeof(one)));
  if (thread_.joinable()) thread_.join();
  close(listener_);
  close(wake_);
}

void Acceptor::Run() {
  const int most = MostFiles();
  for (;;) {
    pollfd files[] = {{listener_, POLLIN, 0}, {wake_, POLLIN, 0}};
    if (poll(files, 2, /*timeout=*/-1) < 0 && errno != EINTR) std::this_thread::sleep_for(kPause);
    if (files[1].revents != 0) return;
    const int file = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (file < 0) {
      // Some are of the one connection that has gone; others, of no files or memory, pass.
      if (errno != EAGAIN && errno != ECONNABORTED) std::this_thread::sleep_for(kPause);
      continue;
    }
    if (file >= most) {
      close(file);
      continue;
    }
    const int one = 1;
    setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    take_(file);
  }
}

}  // namespace strata::controller
