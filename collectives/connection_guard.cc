#include "collectives/connection_guard.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/entropy.h"

namespace strata::collectives {
namespace {

// Connections of higher numbers cannot be guarded and are not made.
constexpr int kMostDescriptors = 1 << 20;
// The kernel tells of a connection only when its first bytes are there, within so long.
constexpr int kFirstBytesSeconds = 60;
// Strangers that are turned away before UCX gets to do something else.
constexpr int kMostRefusedAtOnce = 64;
constexpr int kMostTold = 16;  // messages of a process
// A peer may have been started a moment before this rank, and UCX asks for its connection again and
// again: it waits for Admit, but not long, for it holds a lock of its own.
constexpr auto kTooEarly = std::chrono::milliseconds(10);

// The C library's.
template <typename Function>
Function* Real(const char* name) {
  auto* const found = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
  STRATA_CHECK(found != nullptr);
  return found;
}
int RealListen(int file, int backlog) {
  static auto* const real = Real<int(int, int)>("listen");
  return real(file, backlog);
}
int RealAccept(int file, sockaddr* address, socklen_t* size) {
  static auto* const real = Real<int(int, sockaddr*, socklen_t*)>("accept");
  return real(file, address, size);
}
int RealConnect(int file, const sockaddr* address, socklen_t size) {
  static auto* const real = Real<int(int, const sockaddr*, socklen_t)>("connect");
  return real(file, address, size);
}
ssize_t RealSend(int file, const void* bytes, size_t size, int flags) {
  static auto* const real = Real<ssize_t(int, const void*, size_t, int)>("send");
  return real(file, bytes, size, flags);
}
ssize_t RealSendMessage(int file, const msghdr* message, int flags) {
  static auto* const real = Real<ssize_t(int, const msghdr*, int)>("sendmsg");
  return real(file, message, flags);
}
ssize_t RealReceive(int file, void* bytes, size_t size, int flags) {
  static auto* const real = Real<ssize_t(int, void*, size_t, int)>("recv");
  return real(file, bytes, size, flags);
}

// Address and port, as bytes that compare; empty for another family.
std::string Packed(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* const v4 = reinterpret_cast<const sockaddr_in*>(address);
    return std::string(reinterpret_cast<const char*>(&v4->sin_port), 2) +
           std::string(reinterpret_cast<const char*>(&v4->sin_addr), 4);
  }
  if (address->sa_family == AF_INET6) {
    const auto* const v6 = reinterpret_cast<const sockaddr_in6*>(address);
    return std::string(reinterpret_cast<const char*>(&v6->sin6_port), 2) +
           std::string(reinterpret_cast<const char*>(&v6->sin6_addr), 16);
  }
  return "";
}

// "192.0.2.7:40112".
std::string AddressText(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "?";
  const bool v6 = address->sa_family == AF_INET6;
  const auto* const in6 = reinterpret_cast<const sockaddr_in6*>(address);
  const auto* const in4 = reinterpret_cast<const sockaddr_in*>(address);
  inet_ntop(address->sa_family, v6 ? static_cast<const void*>(&in6->sin6_addr) : &in4->sin_addr,
            text, sizeof(text));
  return absl::StrCat(v6 ? "[" : "", text, v6 ? "]:" : ":",
                      ntohs(v6 ? in6->sin6_port : in4->sin_port));
}

std::string PeerText(int file) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getpeername(file, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "?";
  return AddressText(reinterpret_cast<const sockaddr*>(&address));
}

ino_t InodeOf(int file) {
  struct stat stat = {};
  return fstat(file, &stat) == 0 ? stat.st_ino : 0;
}

struct Member {
  bool admitted = false;
  WorldKey key;
  int rank = 0, size = 0;
  std::set<int> listening;           // descriptors
  std::set<std::string> challenges;  // answered: what comes with one again was overheard
  int64_t refused = 0;
};

// A connection that this process makes, until it has proven itself.
struct Dialing {
  ino_t inode = 0;  // the number may be another socket's by now
  WorldKey key;
  int from = 0, to = 0;
  std::string where;  // address, for people
  std::string challenge;
  bool marked = false;
  std::string answer;  // so far
};

// All guards of the process: UCX's calls say only which descriptor they are about.
class Doorkeeper {
 public:
  static Doorkeeper& Get() {
    static auto* const only = new Doorkeeper;
    return *only;
  }

  void Add(const void* guard) {
    const std::lock_guard lock(mutex_);
    members_[guard];
  }
  void Remove(const void* guard) {
    const std::lock_guard lock(mutex_);
    for (const int file : members_[guard].listening) kind_[file].store(kOther);
    members_.erase(guard);
    std::erase_if(ranks_, [&](const auto& each) { return each.second.first == guard; });
  }
  Member Look(const void* guard) {
    const std::lock_guard lock(mutex_);
    return members_.at(guard);
  }
  void Listens(const void* guard, int file) {
    const std::lock_guard lock(mutex_);
    members_.at(guard).listening.insert(file);
    kind_[file].store(kListens, std::memory_order_release);
  }
  void Admit(const void* guard, const WorldKey& key, int rank,
             const std::vector<std::vector<std::string>>& listeners) {
    const std::lock_guard lock(mutex_);
    Member& member = members_.at(guard);
    member.key = key;
    member.rank = rank;
    member.size = static_cast<int>(listeners.size());
    member.admitted = true;
    admitted_.notify_all();
    for (int to = 0; to < member.size; ++to) {
      if (to == rank) continue;
      for (const std::string& address : listeners[to]) ranks_[address] = {guard, to};
    }
  }

  bool IsListening(int file) const { return KindOf(file) == kListens; }
  bool IsDialing(int file) const { return KindOf(file) == kDials; }

  int Accept(int file, sockaddr* address, socklen_t* size);
  void Dial(int file, const sockaddr* address);
  // Whether the socket may be used by its owner now; otherwise errno is set (0: it was closed).
  bool SendMark(int file, int flags);
  bool TakeAnswer(int file);

 private:
  enum Kind : uint8_t { kOther, kListens, kDials };

  Kind KindOf(int file) const {
    if (file < 0 || file >= kMostDescriptors) return kOther;
    return static_cast<Kind>(kind_[file].load(std::memory_order_acquire));
  }
  const void* GuardOf(int listening);
  void Tell(const std::string& what);
  bool Proves(const void* guard, int file);
  Dialing* Find(int file);
  void Forget(int file);

  std::mutex mutex_;                  // guards what follows, but for kind_
  std::condition_variable admitted_;  // somebody was
  std::map<const void*, Member> members_;
  std::map<std::string, std::pair<const void*, int>> ranks_;  // by listening address
  std::map<int, Dialing> dialing_;
  int told_ = 0;
  common::Entropy entropy_ = common::SystemEntropy();
  std::array<std::atomic<uint8_t>, kMostDescriptors> kind_ = {};  // so that others pay a look
};

// UCX tries again and again, and so may strangers.
void Doorkeeper::Tell(const std::string& what) {
  if (++told_ > kMostTold) return;
  std::fprintf(stderr, "%s%s\n", what.c_str(),
               told_ == kMostTold ? " (no more of these will be told)" : "");
}

const void* Doorkeeper::GuardOf(int listening) {
  for (const auto& [guard, member] : members_) {
    if (member.listening.contains(listening)) return guard;
  }
  return nullptr;
}

int Doorkeeper::Accept(int file, sockaddr* address, socklen_t* size) {
  const void* guard = nullptr;
  const auto admits = [&] {
    guard = GuardOf(file);
    return guard != nullptr && members_.at(guard).admitted;
  };
  {
    std::unique_lock lock(mutex_);
    if (!admitted_.wait_for(lock, kTooEarly, admits)) {
      errno = EAGAIN;
      return -1;
    }
  }
  const socklen_t room = size != nullptr ? *size : 0;
  for (int i = 0; i < kMostRefusedAtOnce; ++i) {
    if (size != nullptr) *size = room;
    const int connection = RealAccept(file, address, size);
    if (connection < 0 || Proves(guard, connection)) return connection;
    close(connection);
  }
  errno = EAGAIN;
  return -1;
}

// Reads the mark of a connection and answers it; the kernel had all of it when it told of the
// connection, or it is no rank's.
bool Doorkeeper::Proves(const void* guard, int file) {
  const std::lock_guard lock(mutex_);
  const auto found = members_.find(guard);
  if (found == members_.end()) return false;
  Member& member = found->second;
  char mark[kMarkBytes];
  const ssize_t size = RealReceive(file, mark, sizeof(mark), MSG_DONTWAIT);
  absl::StatusOr<Marked> marked =
      CheckMark(member.key, member.rank, member.size,
                absl::string_view(mark, static_cast<size_t>(std::max<ssize_t>(size, 0))));
  if (marked.ok() && !member.challenges.insert(marked->challenge).second) {
    marked = absl::PermissionDeniedError("it repeats the first bytes of another connection");
  }
  if (!marked.ok()) {
    ++member.refused;
    Tell(absl::StrCat("rank ", member.rank, " refuses a connection from ", PeerText(file), ": ",
                      marked.status().message()));
    return false;
  }
  const std::string answer = MakeAnswer(member.key, marked->from, member.rank, marked->challenge);
  return RealSend(file, answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(answer.size());
}

void Doorkeeper::Dial(int file, const sockaddr* address) {
  const std::lock_guard lock(mutex_);
  Forget(file);
  const auto found = ranks_.find(Packed(address));
  if (found == ranks_.end() || file < 0 || file >= kMostDescriptors) return;
  const auto& [guard, to] = found->second;
  const Member& member = members_.at(guard);
  Dialing& dialing = dialing_[file];
  dialing = {.inode = InodeOf(file), .key = member.key, .from = member.rank, .to = to};
  dialing.where = AddressText(address);
  while (dialing.challenge.size() < kChallengeBytes) {
    const uint64_t word = entropy_();
    dialing.challenge.append(reinterpret_cast<const char*>(&word), sizeof(word));
  }
  kind_[file].store(kDials, std::memory_order_release);
}

Dialing* Doorkeeper::Find(int file) {
  const auto found = dialing_.find(file);
  if (found == dialing_.end()) return nullptr;
  if (found->second.inode == InodeOf(file)) return &found->second;
  Forget(file);
  return nullptr;
}

void Doorkeeper::Forget(int file) {
  if (dialing_.erase(file) > 0) kind_[file].store(kOther, std::memory_order_release);
}

bool Doorkeeper::SendMark(int file, int flags) {
  const std::lock_guard lock(mutex_);
  Dialing* const dialing = Find(file);
  if (dialing == nullptr || dialing->marked) return true;
  const std::string mark = MakeMark(dialing->key, dialing->from, dialing->to, dialing->challenge);
  const ssize_t sent = RealSend(file, mark.data(), mark.size(), flags | MSG_NOSIGNAL);
  if (sent < 0) return false;
  if (sent != static_cast<ssize_t>(mark.size())) {  // a fresh connection has room for it
    errno = ECONNRESET;
    return false;
  }
  dialing->marked = true;
  return true;
}

bool Doorkeeper::TakeAnswer(int file) {
  const std::lock_guard lock(mutex_);
  Dialing* const dialing = Find(file);
  if (dialing == nullptr) return true;
  char bytes[kAnswerBytes];
  const ssize_t size =
      RealReceive(file, bytes, kAnswerBytes - dialing->answer.size(), MSG_DONTWAIT);
  if (size == 0) {
    Tell(absl::StrCat("rank ", dialing->from, ": rank ", dialing->to, " at ", dialing->where,
                      " has refused its connection, or is gone"));
    Forget(file);
    errno = ECONNRESET;
  }
  if (size <= 0) return false;
  dialing->answer.append(bytes, static_cast<size_t>(size));
  if (dialing->answer.size() < kAnswerBytes) {
    errno = EAGAIN;
    return false;
  }
  const bool proven =
      CheckAnswer(dialing->key, dialing->from, dialing->to, dialing->challenge, dialing->answer);
  if (!proven) {
    Tell(absl::StrCat("rank ", dialing->from, ": who listens at ", dialing->where, " is not rank ",
                      dialing->to, " of this epoch"));
    shutdown(file, SHUT_RDWR);
    errno = ECONNRESET;
  }
  Forget(file);
  return proven;
}

thread_local ConnectionGuard* listening_guard = nullptr;

}  // namespace

ConnectionGuard::ConnectionGuard() { Doorkeeper::Get().Add(this); }

ConnectionGuard::~ConnectionGuard() {
  EndListening();
  Doorkeeper::Get().Remove(this);
}

void ConnectionGuard::BeginListening() { listening_guard = this; }

void ConnectionGuard::EndListening() {
  if (listening_guard == this) listening_guard = nullptr;
}

std::vector<std::string> ConnectionGuard::listeners() const {
  std::vector<std::string> listeners;
  for (const int file : Doorkeeper::Get().Look(this).listening) {
    sockaddr_storage address = {};
    socklen_t size = sizeof(address);
    STRATA_CHECK(getsockname(file, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    listeners.push_back(Packed(reinterpret_cast<const sockaddr*>(&address)));
  }
  return listeners;
}

void ConnectionGuard::Admit(const WorldKey& key, int rank,
                            const std::vector<std::vector<std::string>>& listeners) {
  Doorkeeper::Get().Admit(this, key, rank, listeners);
}

int64_t ConnectionGuard::refused() const { return Doorkeeper::Get().Look(this).refused; }

}  // namespace strata::collectives

// The calls that UCX makes. Under names of their own here, as libc's headers may define these
// inline.
extern "C" {
using strata::collectives::Doorkeeper;

__attribute__((visibility("default"))) int StrataListen(int file, int backlog) __asm__("listen");
int StrataListen(int file, int backlog) {
  using strata::collectives::listening_guard;
  if (listening_guard != nullptr && file < strata::collectives::kMostDescriptors) {
    const int seconds = strata::collectives::kFirstBytesSeconds;
    setsockopt(file, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof(seconds));
    Doorkeeper::Get().Listens(listening_guard, file);
  }
  return strata::collectives::RealListen(file, backlog);
}

__attribute__((visibility("default"))) int StrataAccept(int file, sockaddr* address,
                                                        socklen_t* size) __asm__("accept");
int StrataAccept(int file, sockaddr* address, socklen_t* size) {
  Doorkeeper& keeper = Doorkeeper::Get();
  if (keeper.IsListening(file)) return keeper.Accept(file, address, size);
  return strata::collectives::RealAccept(file, address, size);
}

__attribute__((visibility("default"))) int StrataConnect(int file, const sockaddr* address,
                                                         socklen_t size) __asm__("connect");
int StrataConnect(int file, const sockaddr* address, socklen_t size) {
  Doorkeeper::Get().Dial(file, address);
  return strata::collectives::RealConnect(file, address, size);
}

__attribute__((visibility("default"))) ssize_t StrataSend(int file, const void* bytes, size_t size,
                                                          int flags) __asm__("send");
ssize_t StrataSend(int file, const void* bytes, size_t size, int flags) {
  Doorkeeper& keeper = Doorkeeper::Get();
  if (keeper.IsDialing(file) && !keeper.SendMark(file, flags)) return -1;
  return strata::collectives::RealSend(file, bytes, size, flags);
}

__attribute__((visibility("default"))) ssize_t StrataSendMessage(int file, const msghdr* message,
                                                                 int flags) __asm__("sendmsg");
ssize_t StrataSendMessage(int file, const msghdr* message, int flags) {
  Doorkeeper& keeper = Doorkeeper::Get();
  if (keeper.IsDialing(file) && !keeper.SendMark(file, flags)) return -1;
  return strata::collectives::RealSendMessage(file, message, flags);
}

__attribute__((visibility("default"))) ssize_t StrataReceive(int file, void* bytes, size_t size,
                                                             int flags) __asm__("recv");
ssize_t StrataReceive(int file, void* bytes, size_t size, int flags) {
  Doorkeeper& keeper = Doorkeeper::Get();
  if (keeper.IsDialing(file) && !keeper.TakeAnswer(file)) return -1;
  return strata::collectives::RealReceive(file, bytes, size, flags);
}
}  // extern "C"
