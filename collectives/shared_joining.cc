// How a rank's channels to others of its host come to be and end: doors, marks and sockets.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/shared_transport.h"
#include "common/entropy.h"
#include "common/status_macros.h"

namespace strata::collectives {
namespace {

// What an event is about; beside it stands a rank or a descriptor.
enum : uint64_t {
  kBell = uint64_t{1} << 32,
  kDoor = uint64_t{2} << 32,
  kStranger = uint64_t{3} << 32,
  kOut = uint64_t{4} << 32,
  kIn = uint64_t{5} << 32,
};
constexpr int kEventsAtOnce = 16;
constexpr size_t kMostStrangers = 64;
constexpr int64_t kMostTold = 16;  // refusals

}  // namespace

absl::StatusOr<std::unique_ptr<SharedTransport>> SharedTransport::Create(SharedDoor door,
                                                                         WorldKey key, int rank,
                                                                         int size, bool direct) {
  std::unique_ptr<SharedTransport> made(
      new SharedTransport(std::move(door), std::move(key), rank, size, direct));
  RETURN_IF_ERROR(made->Start());
  return made;
}

SharedTransport::SharedTransport(SharedDoor door, WorldKey key, int rank, int size, bool direct)
    : door_(std::move(door)),
      key_(std::move(key)),
      rank_(rank),
      direct_(direct),
      probe_(common::SystemEntropy()()),
      peers_(size) {}

// Peers see their sockets hang up.
SharedTransport::~SharedTransport() { Abort(); }

absl::Status SharedTransport::Start() {
  events_ = common::Descriptor(epoll_create1(EPOLL_CLOEXEC));
  bell_ = common::Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!events_.is_open() || !bell_.is_open()) {
    return absl::UnavailableError(absl::StrCat("epoll or eventfd: ", std::strerror(errno)));
  }
  RETURN_IF_ERROR(Watch(bell_.get(), kBell));
  return Watch(door_.file(), kDoor);
}

absl::Status SharedTransport::Watch(int file, uint64_t what) {
  epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data = {.u64 = what}};
  if (epoll_ctl(events_.get(), EPOLL_CTL_ADD, file, &event) == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("epoll_ctl: ", std::strerror(errno)));
}

SharedTransport::Peer& SharedTransport::PeerOf(int rank) {
  if (peers_[rank] == nullptr) {
    peers_[rank] = std::make_unique<Peer>();
    Peer& peer = *peers_[rank];
    peer.rank = rank;
    peer.wanted.reserve(kChannelIds);
    peer.arrived.reserve(kChannelIds);
    peer.taking.reserve(kChannelIds);
    known_.push_back(&peer);
  }
  return *peers_[rank];
}

absl::Status SharedTransport::Connect(int peer, const std::string& door) {
  auto socket = SharedDoor::Dial(door);
  if (!socket.ok()) {
    return absl::Status(
        socket.status().code(),
        absl::StrCat("connecting to rank ", peer, " of this host: ", socket.status().message()));
  }
  const ChannelLabel label = {.epoch = key_.epoch,
                              .from = rank_,
                              .to = peer,
                              .probe_address = reinterpret_cast<uint64_t>(&probe_),
                              .probe = probe_};
  common::Descriptor file;
  Peer& made = PeerOf(peer);
  ASSIGN_OR_RETURN(made.out_memory, MappedChannel::Create(label, &file));
  made.out = std::make_unique<ChannelSender>(made.out_memory.get());
  made.challenge = common::DrawBytes(common::SystemEntropy(), kChallengeBytes);
  made.out_socket = *std::move(socket);
  if (!SendPacket(made.out_socket.file.get(), MakeMark(key_, rank_, peer, made.challenge),
                  {file.get(), bell_.get()})) {
    return absl::UnavailableError(
        absl::StrCat("connecting to rank ", peer, " of this host: ", std::strerror(errno)));
  }
  return Watch(made.out_socket.file.get(), kOut | static_cast<uint32_t>(peer));
}

void SharedTransport::LookAtSockets() {
  epoll_event events[kEventsAtOnce];
  const int count = epoll_wait(events_.get(), events, kEventsAtOnce, 0);
  for (int i = 0; i < count; ++i) {
    const uint64_t what = events[i].data.u64 & ~uint64_t{0xffffffff};
    const int which = static_cast<int>(events[i].data.u64 & 0xffffffff);
    if (what == kBell) {
      uint64_t rings = 0;
      [[maybe_unused]] const ssize_t bytes = read(bell_.get(), &rings, sizeof(rings));
    } else if (what == kDoor) {
      AnswerDoor();
    } else if (what == kStranger) {
      HearStranger(which);
    } else {
      HearPeer(*peers_[which], what == kOut);
    }
  }
}

void SharedTransport::Refuse(pid_t process, const absl::Status& why) {
  if (++refused_ > kMostTold) return;
  std::fprintf(stderr, "rank %d refuses a connection from process %d of this host: %.*s%s\n", rank_,
               static_cast<int>(process), static_cast<int>(why.message().size()),
               why.message().data(),
               refused_ == kMostTold ? " (no more of these will be told)" : "");
}

void SharedTransport::AnswerDoor() {
  for (;;) {
    absl::StatusOr<DoorSocket> socket = door_.Accept();
    if (!socket.ok()) {
      Refuse(0, socket.status());
      continue;
    }
    if (!socket->file.is_open()) return;
    const int file = socket->file.get();
    if (strangers_.size() >= kMostStrangers) {
      Refuse(socket->process, absl::ResourceExhaustedError("too many others have said nothing"));
    } else if (Watch(file, kStranger | static_cast<uint32_t>(file)).ok()) {
      strangers_[file] = *std::move(socket);
      HearStranger(file);  // who connects speaks at once
    }
  }
}

void SharedTransport::HearStranger(int file) {
  const auto found = strangers_.find(file);
  if (found == strangers_.end()) return;  // heard already
  absl::StatusOr<DoorPacket> packet = ReceivePacket(file, kMarkBytes + 1);
  if (!packet.ok()) return;
  DoorSocket socket = std::move(found->second);
  strangers_.erase(found);
  epoll_ctl(events_.get(), EPOLL_CTL_DEL, file, nullptr);
  const absl::Status admitted = Admit(socket, *packet);
  if (!admitted.ok()) Refuse(socket.process, admitted);
}

// Checks all that a peer says, and only then lets it in.
absl::Status SharedTransport::Admit(DoorSocket& socket, DoorPacket& packet) {
  const int size = static_cast<int>(peers_.size());
  ASSIGN_OR_RETURN(const Marked marked, CheckMark(key_, rank_, size, packet.bytes));
  if (packet.files.size() != 2) {
    return absl::PermissionDeniedError("it brings no memory to share");
  }
  if (peers_[marked.from] != nullptr && peers_[marked.from]->in != nullptr) {
    return absl::PermissionDeniedError(absl::StrCat("rank ", marked.from, " is here already"));
  }
  ASSIGN_OR_RETURN(MappedChannel memory,
                   MappedChannel::Map(packet.files[0].get(), key_.epoch, marked.from, rank_));
  // One that has left already does not read it, but what it sent before counts.
  SendPacket(socket.file.get(), MakeAnswer(key_, marked.from, rank_, marked.challenge),
             {bell_.get()});
  RETURN_IF_ERROR(Watch(socket.file.get(), kIn | static_cast<uint32_t>(marked.from)));
  Peer& peer = PeerOf(marked.from);
  peer.in_socket = std::move(socket);
  peer.in_memory = std::move(memory);
  peer.in = std::make_unique<ChannelReceiver>(peer.in_memory.get());
  peer.bell = std::move(packet.files[1]);
  ProbeMemory(peer);
  return absl::OkStatus();
}

void SharedTransport::ProbeMemory(Peer& peer) const {
  if (!direct_) return;
  const ChannelLabel& label = peer.in_memory->label;
  uint64_t found = 0;
  iovec to = {&found, sizeof(found)};
  iovec from = {reinterpret_cast<void*>(label.probe_address), sizeof(found)};
  const bool read = peer.in_socket.process > 0 &&
                    process_vm_readv(peer.in_socket.process, &to, 1, &from, 1, 0) == sizeof(found);
  peer.direct = read && found == label.probe;
  if (peer.direct || (!read && errno == ESRCH)) return;  // it has ended: its socket will tell
  std::fprintf(stderr,
               "rank %d may not read the memory of rank %d (%s): their large messages are copied "
               "twice. Yama (kernel.yama.ptrace_scope above 0) and containers without the system "
               "call process_vm_readv forbid it\n",
               rank_, peer.rank, read ? "another process answered" : std::strerror(errno));
}

// A socket of a peer that can be read: its answer, or its end.
void SharedTransport::HearPeer(Peer& peer, bool out) {
  if (!peer.lost.ok()) return;
  if (out && !peer.challenge.empty()) {
    if (!TakeAnswerOf(peer)) Lose(peer, "it has refused the connection, or is gone");
    return;
  }
  char byte = 0;
  const int file = (out ? peer.out_socket : peer.in_socket).file.get();
  const ssize_t size = recv(file, &byte, 1, MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  Lose(peer, size > 0 ? "it says what no rank says" : "its process has ended");
}

// False: it is no answer.
bool SharedTransport::TakeAnswerOf(Peer& peer) {
  absl::StatusOr<DoorPacket> packet = ReceivePacket(peer.out_socket.file.get(), kAnswerBytes + 1);
  if (!packet.ok()) return true;  // nothing yet
  if (!CheckAnswer(key_, rank_, peer.rank, peer.challenge, packet->bytes) ||
      packet->files.size() != 1) {
    return false;
  }
  peer.challenge.clear();
  peer.bell = std::move(packet->files[0]);
  Ring(peer);  // what was sent before the answer may have come to one asleep
  return true;
}

}  // namespace strata::collectives
