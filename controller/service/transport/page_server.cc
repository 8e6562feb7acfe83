#include "controller/service/transport/page_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"

namespace strata::controller {
namespace {

using Outcome = security::TlsSession::Outcome;

constexpr double kFarewellSeconds = 1;       // for the client to close its side
constexpr size_t kFarewellBytes = 64 << 10;  // that it may still send
constexpr absl::string_view kHeadEnd = "\r\n\r\n";

const char* ReasonPhrase(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "Service Unavailable";
  }
}

std::string ToHttp(const PageAnswer& page) {
  return absl::StrCat("HTTP/1.1 ", page.code, " ", ReasonPhrase(page.code), "\r\n",
                      "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n",
                      "Content-Length: ", page.text.size(), "\r\n",
                      page.code == 405 ? "Allow: GET\r\n" : "", "Connection: close\r\n\r\n",
                      page.text);
}

std::string PeerOf(int file) {
  sockaddr_storage peer = {};
  socklen_t size = sizeof(peer);
  if (getpeername(file, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return "";
  char text[INET6_ADDRSTRLEN] = {};
  if (peer.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(peer);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
    return absl::StrCat("ipv6:[", text, "]:", ntohs(v6.sin6_port));
  }
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(peer);
  inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
  return absl::StrCat("ipv4:", text, ":", ntohs(v4.sin_port));
}

Outcome OfErrno(Outcome wants) {
  return errno == EAGAIN || errno == EINTR ? wants : Outcome::kOver;
}

}  // namespace

struct PageServer::Connection {
  enum class State { kRequest, kAnswer, kFarewell };

  ~Connection() {
    tls.reset();
    close(file);
  }
  Outcome Read(char* bytes, size_t size, size_t& moved) const {
    if (tls != nullptr) return tls->Read(bytes, size, moved);
    const ssize_t count = read(file, bytes, size);
    moved = count > 0 ? static_cast<size_t>(count) : 0;
    if (count < 0) return OfErrno(Outcome::kWantsRead);
    return count > 0 ? Outcome::kMoved : Outcome::kOver;
  }
  Outcome Write(const char* bytes, size_t size, size_t& moved) const {
    if (tls != nullptr) return tls->Write(bytes, size, moved);
    const ssize_t count = send(file, bytes, size, MSG_NOSIGNAL);
    moved = count > 0 ? static_cast<size_t>(count) : 0;
    return count > 0 ? Outcome::kMoved : OfErrno(Outcome::kWantsWrite);
  }
  // What has to happen before it goes on. False: nothing, it is over.
  bool Await(Outcome outcome) {
    events = outcome == Outcome::kWantsWrite ? POLLOUT : POLLIN;
    return outcome != Outcome::kOver;
  }

  int file = -1;
  std::unique_ptr<security::TlsSession> tls;  // null: plain
  State state = State::kRequest;
  short events = POLLIN;  // NOLINT: poll's
  double deadline = 0;
  std::string bytes;  // read of the request, then of the answer
  size_t done = 0;    // written; later: read after it
};

absl::StatusOr<std::unique_ptr<PageServer>> PageServer::Listen(
    const std::string& address, std::unique_ptr<security::TlsServer> tls,
    const common::Clock* clock) {
  ASSIGN_OR_RETURN(const ListenAddress at, ParseListenAddress(address));
  ASSIGN_OR_RETURN(std::unique_ptr<Acceptor> acceptor, Acceptor::Listen(at));
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) return absl::InternalError(absl::StrCat("eventfd: ", std::strerror(errno)));
  return std::unique_ptr<PageServer>(
      new PageServer(std::move(acceptor), std::move(tls), clock, wake));
}

PageServer::PageServer(std::unique_ptr<Acceptor> acceptor, std::unique_ptr<security::TlsServer> tls,
                       const common::Clock* clock, int wake)
    : acceptor_(std::move(acceptor)), tls_(std::move(tls)), clock_(clock), wake_(wake) {}

PageServer::~PageServer() {
  acceptor_.reset();  // nothing comes any more
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    eventfd_write(wake_, 1);
    thread_.join();
  }
  for (const int file : arrived_) close(file);
  close(wake_);
}

void PageServer::Begin(Answer answer) {
  answer_ = std::move(answer);
  thread_ = std::thread([this] { Run(); });
  // They are few, and may have the files that are kept from the API's.
  acceptor_->Begin(
      [this](int file) {
        const std::lock_guard lock(mutex_);
        arrived_.push_back(file);
        eventfd_write(wake_, 1);
      },
      /*places=*/nullptr, /*most_files=*/INT_MAX);
}

void PageServer::TakeNew() {
  std::vector<int> arrived;
  {
    const std::lock_guard lock(mutex_);
    arrived.swap(arrived_);
  }
  for (const int file : arrived) {
    auto connection = std::make_unique<Connection>();
    connection->file = file;
    connection->deadline = clock_->Now() + kRequestSeconds;
    if (tls_ != nullptr) {
      auto session = tls_->Begin(file, common::WallSeconds());
      if (!session.ok()) continue;
      connection->tls = *std::move(session);
    }
    if (connections_.size() >= kMostConnections) connections_.erase(connections_.begin());
    connections_.push_back(std::move(connection));
  }
}

// Were it closed at once, what the client still says would take back what it has not read yet.
void PageServer::TakeLeave(Connection& connection) {
  if (connection.tls != nullptr) connection.tls->End();
  shutdown(connection.file, SHUT_WR);
  connection.state = Connection::State::kFarewell;
  connection.deadline = clock_->Now() + kFarewellSeconds;
  connection.events = POLLIN;
  connection.done = 0;
}

bool PageServer::ReadRequest(Connection& connection) {
  std::array<char, 2048> piece;
  while (!absl::StrContains(connection.bytes, kHeadEnd) &&
         connection.bytes.size() <= kMostRequestBytes) {
    size_t moved = 0;
    const Outcome outcome = connection.Read(piece.data(), piece.size(), moved);
    if (outcome == Outcome::kOver && connection.tls != nullptr) {
      TakeLeave(connection);  // of a handshake that failed the client is told why
      return true;
    }
    if (outcome != Outcome::kMoved) return connection.Await(outcome);
    connection.bytes.append(piece.data(), moved);
  }
  const auto page = [&]() -> PageAnswer {
    if (connection.bytes.size() > kMostRequestBytes) return {431, "the request is too long\n"};
    const std::string line = connection.bytes.substr(0, connection.bytes.find("\r\n"));
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words.size() != 3 || !absl::StartsWith(words[2], "HTTP/1.")) {
      return {400, "this is no request of HTTP/1.1\n"};
    }
    if (words[0] != "GET") return {405, "pages are read with GET\n"};
    return answer_({.path = words[1].substr(0, words[1].find('?')),
                    .peer = PeerOf(connection.file),
                    .chain = connection.tls == nullptr ? "" : connection.tls->PeerChain()});
  };
  connection.bytes = ToHttp(page());
  connection.state = Connection::State::kAnswer;
  connection.deadline = clock_->Now() + kAnswerSeconds;
  return true;
}

bool PageServer::WriteAnswer(Connection& connection) {
  while (connection.done < connection.bytes.size()) {
    size_t moved = 0;
    const Outcome outcome = connection.Write(connection.bytes.data() + connection.done,
                                             connection.bytes.size() - connection.done, moved);
    if (outcome != Outcome::kMoved) return connection.Await(outcome);
    connection.done += moved;
  }
  TakeLeave(connection);
  return true;
}

bool PageServer::Advance(Connection& connection) {
  using State = Connection::State;
  if (connection.state == State::kRequest && !ReadRequest(connection)) return false;
  if (connection.state == State::kAnswer && !WriteAnswer(connection)) return false;
  if (connection.state != State::kFarewell) return true;
  std::array<char, 4096> piece;
  ssize_t count = 0;
  while ((count = read(connection.file, piece.data(), piece.size())) > 0) {
    connection.done += static_cast<size_t>(count);
    if (connection.done > kFarewellBytes) return false;
  }
  return count < 0 && (errno == EAGAIN || errno == EINTR);
}

void PageServer::Run() {
  std::vector<pollfd> files;
  for (;;) {
    double next = clock_->Now() + 3600;
    files.assign(1, {wake_, POLLIN, 0});
    for (const auto& connection : connections_) {
      files.push_back({connection->file, connection->events, 0});
      next = std::min(next, connection->deadline);
    }
    const double wait = std::max(0.0, next - clock_->Now());
    poll(files.data(), files.size(), static_cast<int>(std::ceil(1000 * wait)));
    const double now = clock_->Now();
    for (size_t i = 0; i < connections_.size(); ++i) {
      const bool ready = files[i + 1].revents != 0;
      const bool goes_on = (!ready || Advance(*connections_[i])) && now < connections_[i]->deadline;
      if (!goes_on) connections_[i].reset();
    }
    std::erase(connections_, nullptr);
    if (files[0].revents == 0) continue;
    eventfd_t count = 0;
    eventfd_read(wake_, &count);
    {
      const std::lock_guard lock(mutex_);
      if (ends_) break;
    }
    TakeNew();
  }
  connections_.clear();
}

}  // namespace strata::controller
