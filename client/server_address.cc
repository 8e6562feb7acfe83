#include "client/server_address.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "spec/problems.h"

namespace strata::client {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// 0 when connected, else the reason.
int ConnectTo(const addrinfo& target, absl::Time end) {
  const int fd = socket(target.ai_family, target.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const absl::Cleanup closer = [fd] { close(fd); };
  if (connect(fd, target.ai_addr, target.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  while (true) {
    pollfd wait = {fd, POLLOUT, 0};
    const int64_t left_ms = absl::ToInt64Milliseconds(end - absl::Now());
    if (left_ms <= 0) return ETIMEDOUT;
    const int ready = poll(&wait, 1, static_cast<int>(left_ms));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return ready == 0 ? ETIMEDOUT : errno;
    int error = 0;
    socklen_t size = sizeof(error);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
    return error;
  }
}

}  // namespace

std::string ServerAddress::ToString() const {
  const bool v6 = host.find(':') != std::string::npos;
  return absl::StrCat(v6 ? "[" : "", host, v6 ? "]" : "", ":", port);
}

absl::StatusOr<ServerAddress> ParseServerAddress(absl::string_view text) {
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("not a server address: ", spec::Shown(text, 100),
                                                   " (", why, ") — write HOST:PORT"));
  };
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return refuse("the port is missing");
  absl::string_view host = text.substr(0, colon);
  if (!host.empty() && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != absl::string_view::npos) {
    return refuse("an IPv6 address needs brackets");
  }
  const absl::string_view digits = text.substr(colon + 1);
  int port = 0;
  if (!absl::SimpleAtoi(digits, &port) || port < 1 || port > 65535) {
    return refuse(absl::StrCat("the port is ", spec::Shown(digits, 20), ", not 1 to 65535"));
  }
  if (host.empty()) return refuse("the host is missing");
  return ServerAddress{std::string(host), static_cast<uint16_t>(port)};
}

std::string RememberedServerFile() {
  std::string state = Variable("XDG_STATE_HOME");
  if (state.empty()) {
    const std::string home = Variable("HOME");
    if (home.empty()) return "";
    state = home + "/.local/state";
  }
  return state + "/strata/server";
}

RememberedCluster ReadRememberedCluster() {
  RememberedCluster found;
  std::ifstream stream(RememberedServerFile());
  std::getline(stream, found.server);
  std::getline(stream, found.directory);
  found.server = std::string(absl::StripAsciiWhitespace(found.server));
  return found;
}

absl::Status RememberCluster(const RememberedCluster& cluster) {
  const std::string file = RememberedServerFile();
  if (file.empty()) {
    return absl::UnknownError("neither HOME nor XDG_STATE_HOME is set: use --server");
  }
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(file).parent_path(), error);
  const std::string temporary = absl::StrCat(file, ".", getpid(), ".new");
  std::ofstream stream(temporary, std::ios::trunc);
  stream << cluster.server << "\n" << cluster.directory << "\n";
  stream.close();
  if (!stream.fail()) std::filesystem::rename(temporary, file, error);
  if (!stream.fail() && !error) return absl::OkStatus();
  return absl::UnknownError(
      absl::StrCat(file, " could not be written: other commands need --server ", cluster.server));
}

void ForgetCluster() {
  std::error_code error;
  std::filesystem::remove(RememberedServerFile(), error);
}

absl::StatusOr<ServerAddress> ResolveServer(absl::string_view flag) {
  if (!flag.empty()) return ParseServerAddress(flag);
  if (const std::string variable = Variable("STRATA_SERVER"); !variable.empty()) {
    return ParseServerAddress(variable);
  }
  const RememberedCluster last = ReadRememberedCluster();
  if (!last.server.empty()) return ParseServerAddress(last.server);
  return absl::UnavailableError(
      "no cluster is known — start one with `strata up`, or name one with --server HOST:PORT");
}

absl::Status CheckReachable(const ServerAddress& address, absl::Duration deadline) {
  const absl::Time end = absl::Now() + deadline;
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed =
      getaddrinfo(address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (failed != 0) {
    return absl::UnavailableError(absl::StrCat(address.ToString(), ": ", gai_strerror(failed),
                                               " — is the host's name right?"));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  int error = ECONNREFUSED;
  for (const addrinfo* target = found; target != nullptr; target = target->ai_next) {
    error = ConnectTo(*target, end);
    if (error == 0) return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat(address.ToString(), " does not answer (",
                                             std::strerror(error),
                                             ") — is the cluster up? (strata up)"));
}

}  // namespace strata::client
