#include "controller/service/transport/unix_relay.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::controller {
namespace {

constexpr size_t kRelayBytes = 64 << 10;  // read at once, and all that waits in one direction
constexpr int kRounds = 16;               // of one connection before it is the others' turn
constexpr int kEvents = 64;

absl::Status RelayError(const char* what) {
  return absl::InternalError(absl::StrCat("a Unix connection: ", what, ": ", strerror(errno)));
}

// Names `file` as no other socket of this machine is named.
absl::StatusOr<std::string> GiveName(int file) {
  std::array<unsigned char, 16> random{};
  if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    return RelayError("getrandom");
  }
  std::string name = "strata-";
  for (const unsigned char byte : random) absl::StrAppend(&name, absl::Hex(byte, absl::kZeroPad2));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // abstract: begins with a zero
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(file, reinterpret_cast<const sockaddr*>(&address), size) != 0) return RelayError("bind");
  return name;
}

}  // namespace

struct UnixRelay::Connection {
  enum class Step { kMoved, kBlocked, kEnded, kBroken };
  // What was read and is not yet written waits; meanwhile nothing more is read.
  struct Direction {
    Step Flush();
    Step Move(std::array<char, kRelayBytes>& buffer);

    int from = -1;
    int to = -1;
    std::string waiting = {};
    size_t written = 0;  // of it
    bool ended = false;  // nothing more comes, and what came is written
  };

  ~Connection() {
    for (const int file : {client, inner}) {
      if (file >= 0) close(file);
    }
  }

  int client = -1;
  int inner = -1;    // gRPC has the other end
  std::string peer;  // as gRPC calls it
  Direction in;      // from the client
  Direction out;
};

UnixRelay::Connection::Step UnixRelay::Connection::Direction::Flush() {
  while (written < waiting.size()) {
    const ssize_t count =
        send(to, waiting.data() + written, waiting.size() - written, MSG_NOSIGNAL);
    if (count > 0) {
      written += static_cast<size_t>(count);
    } else if (errno == EAGAIN) {
      return Step::kBlocked;
    } else if (errno != EINTR) {
      return Step::kBroken;
    }
  }
  waiting = std::string();  // gives its memory back: most connections are silent
  written = 0;
  return Step::kMoved;
}

UnixRelay::Connection::Step UnixRelay::Connection::Direction::Move(
    std::array<char, kRelayBytes>& buffer) {
  if (ended) return Step::kEnded;
  if (const Step flushed = Flush(); flushed != Step::kMoved) return flushed;
  const ssize_t count = read(from, buffer.data(), buffer.size());
  if (count > 0) {
    waiting.assign(buffer.data(), static_cast<size_t>(count));
    return Flush();
  }
  if (count < 0 && errno == EINTR) return Step::kMoved;
  if (count < 0 && errno == EAGAIN) return Step::kBlocked;
  if (count < 0) return Step::kBroken;
  ended = true;
  shutdown(to, SHUT_WR);
  return Step::kEnded;
}

absl::StatusOr<std::unique_ptr<UnixRelay>> UnixRelay::Start() {
  const int poller = epoll_create1(EPOLL_CLOEXEC);
  if (poller < 0) return RelayError("epoll");
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event event = {};
  event.events = EPOLLIN;
  if (wake < 0 || epoll_ctl(poller, EPOLL_CTL_ADD, wake, &event) != 0) {
    const absl::Status failed = RelayError("eventfd");
    close(poller);
    if (wake >= 0) close(wake);
    return failed;
  }
  return std::unique_ptr<UnixRelay>(new UnixRelay(poller, wake));
}

UnixRelay::UnixRelay(int poller, int wake) : poller_(poller), wake_(wake) {
  thread_ = std::thread([this] { Run(); });
}

UnixRelay::~UnixRelay() {
  eventfd_write(wake_, 1);
  thread_.join();
  close(poller_);
  close(wake_);
}

absl::StatusOr<int> UnixRelay::Add(int connection, Identity who) {
  auto added = std::make_unique<Connection>();
  added->client = connection;
  int pair[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
    return RelayError("socketpair");
  }
  added->inner = pair[1];
  const absl::StatusOr<std::string> name = GiveName(added->inner);
  if (!name.ok() || fcntl(connection, F_SETFL, O_NONBLOCK) != 0) {
    close(pair[0]);
    return name.ok() ? RelayError("fcntl") : name.status();
  }
  added->peer = absl::StrCat(kPeerPrefix, *name);
  added->in = {added->client, added->inner};
  added->out = {added->inner, added->client};
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = added.get();
  Connection* const key = added.get();
  const std::lock_guard lock(mutex_);
  if (epoll_ctl(poller_, EPOLL_CTL_ADD, key->client, &event) != 0) {
    close(pair[0]);
    return RelayError("epoll");
  }
  peers_[key->peer] = std::make_shared<const Identity>(std::move(who));
  connections_[key] = std::move(added);  // the thread's, which may look at it already
  if (epoll_ctl(poller_, EPOLL_CTL_ADD, key->inner, &event) != 0) {
    const absl::Status failed = RelayError("epoll");
    close(pair[0]);
    shutdown(key->client, SHUT_RDWR);  // the thread sees that it is over
    return failed;
  }
  return pair[0];
}

std::shared_ptr<const Identity> UnixRelay::Find(const std::string& peer) const {
  const std::lock_guard lock(mutex_);
  const auto found = peers_.find(peer);
  return found == peers_.end() ? nullptr : found->second;
}

UnixRelay::Progress UnixRelay::Pump(Connection& connection) {
  using Step = Connection::Step;
  std::array<char, kRelayBytes> buffer;
  for (int round = 0; round < kRounds; ++round) {
    const Step in = connection.in.Move(buffer);
    const Step out = connection.out.Move(buffer);
    // Once gRPC has closed its end nobody reads what the client says.
    if (in == Step::kBroken || out == Step::kBroken || out == Step::kEnded) return Progress::kOver;
    if (in != Step::kMoved && out != Step::kMoved) return Progress::kWait;
  }
  return Progress::kMore;
}

void UnixRelay::Forget(Connection* connection) {
  const std::lock_guard lock(mutex_);
  peers_.erase(connection->peer);
  connections_.erase(connection);
}

void UnixRelay::Run() {
  std::vector<Connection*> more;  // have had their turn, and have more to pass on
  std::array<epoll_event, kEvents> events;
  for (;;) {
    const int count = epoll_wait(poller_, events.data(), kEvents, more.empty() ? -1 : 0);
    std::vector<Connection*> due = std::exchange(more, {});
    for (int i = 0; i < count; ++i) {
      if (events[i].data.ptr == nullptr) return;  // woken: the end
      due.push_back(static_cast<Connection*>(events[i].data.ptr));
    }
    // Both files of one connection may have something to tell.
    std::sort(due.begin(), due.end());
    due.erase(std::unique(due.begin(), due.end()), due.end());
    for (Connection* const connection : due) {
      const Progress progress = Pump(*connection);
      if (progress == Progress::kMore) more.push_back(connection);
      if (progress == Progress::kOver) Forget(connection);
    }
  }
}

}  // namespace strata::controller
