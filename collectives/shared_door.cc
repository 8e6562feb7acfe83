#include "collectives/shared_door.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/entropy.h"
#include "common/status_macros.h"

namespace strata::collectives {
namespace {

using common::Descriptor;

constexpr int kNameBytes = 16;
constexpr int kMostFiles = 2;
// For room in the queue at a door that is not answered: each rank comes once.
constexpr timeval kDialPatience = {.tv_sec = 10, .tv_usec = 0};

absl::Status DoorError(const char* what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

sockaddr_un AddressOf(const std::string& name, socklen_t* size) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;  // a zero before the name: not a file
  const size_t length = std::min(name.size(), sizeof(address.sun_path) - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);
  *size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

absl::StatusOr<Descriptor> NewSocket() {
  Descriptor file(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!file.is_open()) return DoorError("a Unix socket");
  return file;
}

// Only this process's user may be at the other end.
absl::StatusOr<DoorSocket> Known(Descriptor file) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(file.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return DoorError("asking who is at the other end of a Unix socket");
  }
  if (peer.uid != geteuid()) {
    return absl::PermissionDeniedError(absl::StrCat("process ", peer.pid, " is of user ", peer.uid,
                                                    ", and this rank of ", geteuid()));
  }
  return DoorSocket{.file = std::move(file), .process = peer.pid};
}

ChannelMemory* MapFile(int file) {
  void* const at =
      mmap(nullptr, sizeof(ChannelMemory), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return at == MAP_FAILED ? nullptr : static_cast<ChannelMemory*>(at);
}

// What large messages need only where memory cannot be read directly is left out.
void TouchPages(const ChannelMemory& memory) {
  const auto* const begin = reinterpret_cast<const volatile std::byte*>(&memory);
  for (size_t at = 0; at < offsetof(ChannelMemory, chunks); at += alignof(ChannelMemory)) {
    static_cast<void>(begin[at]);
  }
}

}  // namespace

absl::StatusOr<SharedDoor> SharedDoor::Open() {
  const std::string name = absl::StrCat(
      "strata-", absl::BytesToHexString(common::DrawBytes(common::SystemEntropy(), kNameBytes)));
  ASSIGN_OR_RETURN(Descriptor file, NewSocket());
  socklen_t size = 0;
  const sockaddr_un address = AddressOf(name, &size);
  if (bind(file.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      listen(file.get(), SOMAXCONN) != 0 || fcntl(file.get(), F_SETFL, O_NONBLOCK) != 0) {
    return DoorError("listening on a Unix socket");
  }
  return SharedDoor(name, std::move(file));
}

absl::StatusOr<DoorSocket> SharedDoor::Accept() const {
  Descriptor file(accept4(file_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!file.is_open()) return DoorSocket{};
  return Known(std::move(file));
}

absl::StatusOr<DoorSocket> SharedDoor::Dial(const std::string& name) {
  ASSIGN_OR_RETURN(Descriptor file, NewSocket());
  setsockopt(file.get(), SOL_SOCKET, SO_SNDTIMEO, &kDialPatience, sizeof(kDialPatience));
  socklen_t size = 0;
  const sockaddr_un address = AddressOf(name, &size);
  int result = 0;
  do {
    result = connect(file.get(), reinterpret_cast<const sockaddr*>(&address), size);
  } while (result != 0 && errno == EINTR);
  if (result != 0) return DoorError("its Unix socket cannot be reached (has it ended?)");
  if (fcntl(file.get(), F_SETFL, O_NONBLOCK) != 0) return DoorError("a Unix socket");
  return Known(std::move(file));
}

bool SendPacket(int socket, absl::string_view bytes, absl::Span<const int> files) {
  alignas(cmsghdr) char control[CMSG_SPACE(kMostFiles * sizeof(int))] = {};
  iovec part = {const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(files.size() * sizeof(int));
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), files.data(), files.size() * sizeof(int));
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

absl::StatusOr<DoorPacket> ReceivePacket(int socket, size_t most) {
  alignas(cmsghdr) char control[CMSG_SPACE(kMostFiles * sizeof(int))] = {};
  DoorPacket packet;
  packet.bytes.resize(most);
  iovec part = {packet.bytes.data(), packet.bytes.size()};
  msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t size = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return absl::UnavailableError("nothing yet");
  packet.bytes.resize(size > 0 ? size : 0);
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); size >= 0 && header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= header->cmsg_len; at += sizeof(int)) {
      int file = -1;
      std::memcpy(&file, CMSG_DATA(header) + at, sizeof(file));
      packet.files.emplace_back(file);
    }
  }
  return packet;
}

absl::StatusOr<MappedChannel> MappedChannel::Create(const ChannelLabel& label, Descriptor* file) {
  *file = Descriptor(memfd_create("strata-channel", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file->is_open() || ftruncate(file->get(), sizeof(ChannelMemory)) != 0 ||
      fcntl(file->get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return DoorError("memory to share with a rank of this host");
  }
  ChannelMemory* const memory = MapFile(file->get());
  if (memory == nullptr) return DoorError("mapping memory to share with a rank of this host");
  // Chunks stay untouched: the file's pages are zeros.
  std::memset(static_cast<void*>(memory), 0, offsetof(ChannelMemory, chunks));
  memory->label = label;
  return MappedChannel(memory);
}

absl::StatusOr<MappedChannel> MappedChannel::Map(int file, int64_t epoch, int from, int to) {
  struct stat found = {};
  const int seals = fcntl(file, F_GET_SEALS);
  if (fstat(file, &found) != 0 || found.st_size != sizeof(ChannelMemory) || seals < 0 ||
      (seals & F_SEAL_SHRINK) == 0) {
    return absl::PermissionDeniedError(absl::StrCat("the memory that came with it is not ",
                                                    sizeof(ChannelMemory),
                                                    " sealed bytes, as this build's ranks share"));
  }
  ChannelMemory* const memory = MapFile(file);
  if (memory == nullptr) return DoorError("mapping memory of a rank of this host");
  MappedChannel mapped(memory);
  const ChannelLabel& label = memory->label;
  if (label.magic != ChannelLabel::kMagic || label.epoch != epoch || label.from != from ||
      label.to != to) {
    return absl::PermissionDeniedError(
        absl::StrCat("the memory that came with it is of epoch ", label.epoch, " from rank ",
                     label.from, " to rank ", label.to, ", or of another build"));
  }
  TouchPages(*memory);
  return mapped;
}

MappedChannel::~MappedChannel() {
  if (memory_ != nullptr) munmap(memory_, sizeof(ChannelMemory));
}

}  // namespace strata::collectives
