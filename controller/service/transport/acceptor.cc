#include "controller/service/transport/acceptor.h"

#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::controller {
namespace {

constexpr int kBacklog = 4096;
constexpr auto kPause = std::chrono::milliseconds(10);  // after an accept() that failed

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

struct Listener {
  int socket = -1;
  int lock = -1;  // of a Unix socket
  void Close() const {
    for (const int file : {socket, lock}) {
      if (file >= 0) close(file);
    }
  }
};

absl::Status CannotListen(const ListenAddress& address, int error) {
  return absl::FailedPreconditionError(absl::StrCat(
      address.ToString(),
      error == EADDRINUSE ? std::string(" is in use") : absl::StrCat(": ", std::strerror(error))));
}

absl::StatusOr<Listener> ListenOnPort(const ListenAddress& address) {
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
  Listener listener;
  int error = 0;
  for (const addrinfo* at = list; at != nullptr && listener.socket < 0; at = at->ai_next) {
    listener.socket = ListenOn(*at);
    if (listener.socket < 0) error = errno;
  }
  if (listener.socket < 0) return CannotListen(address, error);
  return listener;
}

// 0, or errno. The socket opens to others once it listens, with its mode.
int BindAt(const std::string& path, const std::string& group, int file) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  if (bind(file, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return errno;
  if (!group.empty()) {
    errno = 0;
    const struct group* const known = getgrnam(group.c_str());
    if (known == nullptr) return errno == 0 ? ESRCH : errno;
    if (chown(path.c_str(), static_cast<uid_t>(-1), known->gr_gid) != 0) return errno;
  }
  if (chmod(path.c_str(), group.empty() ? 0600 : 0660) != 0) return errno;
  return listen(file, kBacklog) == 0 ? 0 : errno;
}

absl::StatusOr<Listener> ListenOnPath(const std::string& path, const std::string& group) {
  ListenAddress address;
  address.path = path;
  Listener listener;
  listener.lock = open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (listener.lock < 0) return CannotListen(address, errno);
  int error = flock(listener.lock, LOCK_EX | LOCK_NB) == 0 ? 0 : EADDRINUSE;
  struct stat there = {};
  const bool is_left = error == 0 && lstat(path.c_str(), &there) == 0;
  if (is_left && S_ISSOCK(there.st_mode)) unlink(path.c_str());  // nobody listens there
  if (error == 0) {
    listener.socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    error = listener.socket < 0 ? errno : BindAt(path, group, listener.socket);
  }
  if (error == 0) return listener;
  listener.Close();
  if (error == ESRCH) {
    return absl::FailedPreconditionError(
        absl::StrCat(address.ToString(), ": there is no group ", group));
  }
  return CannotListen(address, error);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Listen(const ListenAddress& address,
                                                           const std::string& socket_group) {
  ListenAddress bound = address;
  Listener listener;
  if (address.is_unix()) {
    ASSIGN_OR_RETURN(listener, ListenOnPath(address.path, socket_group));
  } else {
    ASSIGN_OR_RETURN(listener, ListenOnPort(address));
    bound.port = PortOf(listener.socket);
  }
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) {
    const int error = errno;
    listener.Close();
    return absl::InternalError(absl::StrCat("eventfd: ", std::strerror(error)));
  }
  return std::unique_ptr<Acceptor>(new Acceptor(bound, listener.socket, listener.lock, wake));
}

// The kernel gives the lowest free number: that of the first file that is not for connections.
int Acceptor::MostFiles() {
  struct rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kReservedFiles;
  const int most = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 30));
  return std::max(most - kReservedFiles, most / 2);
}

void Acceptor::Begin(Take take, std::unique_ptr<Places> places, int most_files) {
  take_ = std::move(take);
  places_ = std::move(places);
  most_files_ = most_files;
  thread_ = std::thread([this] { Run(); });
}

Acceptor::~Acceptor() {
  const uint64_t one = 1;
  static_cast<void>(!write(wake_, &one, sizeof(one)));
  if (thread_.joinable()) thread_.join();
  if (address_.is_unix()) unlink(address_.path.c_str());
  close(listener_);
  close(wake_);
  if (lock_ >= 0) close(lock_);
}

void Acceptor::Run() {
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
    if (file >= most_files_ || (places_ != nullptr && !places_->Take(file))) {
      close(file);
      continue;
    }
    const int one = 1;
    if (!address_.is_unix()) setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    take_(file);
  }
}

}  // namespace strata::controller
