#include "device/standin/nccl_wire.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "common/descriptor.h"
#include "device/standin/runtime.h"

namespace strata::standin {
namespace {

using common::Descriptor;

constexpr int kConnectMilliseconds = 5;  // between attempts
constexpr uint64_t kMostBytes = uint64_t{1} << 32;

struct Header {
  uint32_t kind, index;
  uint64_t number, bytes;
};

// The first bytes on a connection.
struct Greeting {
  int32_t rank;
};

sockaddr_un AddressOf(const std::string& name, socklen_t& size) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // Behind a zero: the abstract namespace.
  std::memcpy(address.sun_path + 1, name.data(),
              std::min(name.size(), sizeof address.sun_path - 1));
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

Descriptor MakeSocket() {
  return Descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

bool IsOfThisUser(int file) {
  ucred other{};
  socklen_t size = sizeof other;
  return getsockopt(file, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == geteuid();
}

void Append(std::vector<std::byte>& to, const void* from, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(from);
  to.insert(to.end(), begin, begin + bytes);
}

struct Connection {
  Descriptor file;
  std::vector<std::byte> in, out;

  bool is_open() const { return file.is_open(); }
  void Flush() {
    size_t sent = 0;
    while (is_open() && sent < out.size()) {
      const ssize_t count = send(file.get(), out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
      if (count > 0) {
        sent += static_cast<size_t>(count);
      } else if (errno != EINTR) {
        if (errno != EAGAIN) sent = out.size();  // who reads it has gone: reading tells
        break;
      }
    }
    out.erase(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(sent));
  }
  // All that is there; false: nothing more will come.
  bool Read() {
    std::byte buffer[1 << 16];
    for (;;) {
      const ssize_t count = recv(file.get(), buffer, sizeof buffer, 0);
      if (count > 0) {
        Append(in, buffer, static_cast<size_t>(count));
      } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
        return false;
      } else if (errno == EAGAIN) {
        return true;
      }
    }
  }
  std::optional<Greeting> TakeGreeting() {
    Greeting greeting{};
    if (in.size() < sizeof greeting) return std::nullopt;
    std::memcpy(&greeting, in.data(), sizeof greeting);
    in.erase(in.begin(), in.begin() + sizeof greeting);
    return greeting;
  }
  std::optional<NcclWire::Frame> TakeFrame() {
    Header header{};
    if (in.size() < sizeof header) return std::nullopt;
    std::memcpy(&header, in.data(), sizeof header);
    if (header.bytes > kMostBytes || in.size() - sizeof header < header.bytes) return std::nullopt;
    const auto begin = in.begin() + sizeof header;
    const auto end = begin + static_cast<std::ptrdiff_t>(header.bytes);
    NcclWire::Frame frame{header.kind, header.index, header.number, {begin, end}};
    in.erase(in.begin(), end);
    return frame;
  }
};

}  // namespace

struct NcclWire::Room {
  std::string name;
  int rank = 0, size = 1;
  Frame hello;
  Ears ears;
  Descriptor door;
  std::map<int, Connection> peers;    // by rank
  std::vector<Connection> strangers;  // have not said who they are
  bool is_closed = false;

  std::string NameOf(int of_rank) const { return name + "." + std::to_string(of_rank); }
  bool Knows(int other) const { return peers.find(other) != peers.end(); }
  bool IsConnecting() const {
    bool all = true;
    for (int other = 0; other < rank; ++other) all = all && Knows(other);
    return !is_closed && !all;
  }
  bool IsOver() const {
    return is_closed && std::all_of(peers.begin(), peers.end(), [](const auto& peer) {
             return !peer.second.is_open() || peer.second.out.empty();
           });
  }

  void Put(Connection& connection, const Frame& frame) const {
    const Header header{frame.kind, frame.index, frame.number, frame.bytes.size()};
    Append(connection.out, &header, sizeof header);
    Append(connection.out, frame.bytes.data(), frame.bytes.size());
    connection.Flush();
  }
  void Connect(int other) {
    Connection connection{.file = MakeSocket()};
    socklen_t size = 0;
    const sockaddr_un address = AddressOf(NameOf(other), size);
    const int file = connection.file.get();
    if (connect(file, reinterpret_cast<const sockaddr*>(&address), size) != 0) return;
    if (!IsOfThisUser(file)) return;
    const Greeting greeting{rank};
    Append(connection.out, &greeting, sizeof greeting);
    Put(connection, hello);
    peers.emplace(other, std::move(connection));
  }
  void Accept() {
    for (;;) {
      Descriptor file(accept4(door.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!file.is_open()) return;
      if (!IsOfThisUser(file.get())) continue;
      Connection connection{.file = std::move(file)};
      Put(connection, hello);
      strangers.push_back(std::move(connection));
    }
  }
  void Recognise() {
    for (Connection& stranger : strangers) {
      if (!stranger.Read() && stranger.in.empty()) stranger.file.Close();
      const std::optional<Greeting> greeting = stranger.TakeGreeting();
      if (!greeting.has_value()) continue;
      const bool expected = greeting->rank > rank && greeting->rank < size;
      if (expected) peers.try_emplace(greeting->rank, std::move(stranger));
      stranger.file.Close();
    }
    std::erase_if(strangers, [](const Connection& stranger) { return !stranger.is_open(); });
  }
  void Listen(int other, Connection& connection) {
    if (!connection.is_open()) return;
    connection.Flush();
    const bool goes_on = connection.Read();
    while (!is_closed) {
      std::optional<Frame> frame = connection.TakeFrame();
      if (!frame.has_value()) break;
      ears.hear(other, *std::move(frame));
    }
    if (goes_on) return;
    connection.file.Close();
    if (!is_closed) ears.gone(other);
  }
  void Move() {
    if (!is_closed) {
      for (int other = 0; other < rank; ++other) {
        if (!Knows(other)) Connect(other);
      }
      Accept();
      Recognise();
    }
    for (auto& [other, connection] : peers) Listen(other, connection);
  }
};

struct NcclWire::State {
  std::function<int()> act;
  std::vector<std::unique_ptr<Room>> rooms;
  Descriptor bell;
  bool is_over = false;

  void Ring() const {
    const uint64_t one = 1;
    static_cast<void>(!write(bell.get(), &one, sizeof one));
  }
  std::vector<pollfd> Files() const {
    std::vector<pollfd> files = {{bell.get(), POLLIN, 0}};
    for (const auto& room : rooms) {
      if (room->door.is_open()) files.push_back({room->door.get(), POLLIN, 0});
      for (const Connection& stranger : room->strangers) {
        files.push_back({stranger.file.get(), POLLIN, 0});
      }
      for (const auto& [rank, peer] : room->peers) {
        const int events = peer.out.empty() ? POLLIN : POLLIN | POLLOUT;
        if (peer.is_open()) files.push_back({peer.file.get(), static_cast<short>(events), 0});
      }
    }
    return files;
  }
  bool IsConnecting() const {
    return std::any_of(rooms.begin(), rooms.end(),
                       [](const auto& room) { return room->IsConnecting(); });
  }
  // Whatever is ready: rooms are few.
  void Move() {
    uint64_t rung = 0;
    static_cast<void>(!read(bell.get(), &rung, sizeof rung));
    for (size_t i = 0; i < rooms.size(); ++i) rooms[i]->Move();
    std::erase_if(rooms, [](const auto& room) { return room->IsOver(); });
  }
};

NcclWire::NcclWire(std::function<int()> act) : state_(std::make_shared<State>()) {
  state_->act = std::move(act);
  state_->bell = Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  // Not joined: who ends this holds the mutex that the thread may wait for.
  std::thread([state = state_] {
    std::unique_lock<std::recursive_mutex> lock(Runtime::Mutex());
    while (!state->is_over) {
      state->Move();
      int patience = state->act();
      if (patience < 0 && state->IsConnecting()) patience = kConnectMilliseconds;
      std::vector<pollfd> files = state->Files();
      lock.unlock();
      poll(files.data(), files.size(), patience);
      lock.lock();
    }
  }).detach();
}

NcclWire::~NcclWire() {
  state_->is_over = true;
  state_->rooms.clear();
  state_->Ring();
}

NcclWire::Room* NcclWire::Open(const std::string& name, int rank, int size, Frame hello,
                               Ears ears) {
  auto room = std::make_unique<Room>();
  room->name = name;
  room->rank = rank;
  room->size = size;
  room->hello = std::move(hello);
  room->ears = std::move(ears);
  room->door = MakeSocket();
  socklen_t bytes = 0;
  const sockaddr_un address = AddressOf(room->NameOf(rank), bytes);
  const int door = room->door.get();
  if (bind(door, reinterpret_cast<const sockaddr*>(&address), bytes) != 0 ||
      listen(door, SOMAXCONN) != 0) {
    return nullptr;
  }
  state_->rooms.push_back(std::move(room));
  state_->Ring();
  return state_->rooms.back().get();
}

void NcclWire::Send(Room& room, int to, const Frame& frame) {
  const auto peer = room.peers.find(to);
  if (peer == room.peers.end() || !peer->second.is_open()) return;
  room.Put(peer->second, frame);
  state_->Ring();
}

void NcclWire::Close(Room& room) {
  room.is_closed = true;
  room.door.Close();
  room.strangers.clear();
  for (auto& [rank, peer] : room.peers) {
    if (peer.out.empty()) peer.file.Close();
  }
  state_->Ring();
}

}  // namespace strata::standin
