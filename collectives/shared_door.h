// How ranks of one host meet: each listens on a Unix socket under a random name in the abstract
// namespace, which no file stands for. The kernel tells who is at the other end; who is of another
// user is turned away before anything is read. A rank that will send connects and says, in one
// packet, its mark (connection_mark.h), with the memory of the channel it will send through and
// what it is rung by; the receiver proves itself by the answer, with what it is rung by.
#ifndef STRATA_COLLECTIVES_SHARED_DOOR_H_
#define STRATA_COLLECTIVES_SHARED_DOOR_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "collectives/shared_channel.h"
#include "common/descriptor.h"

namespace strata::collectives {

// A socket with packets, non-blocking, and who is at its other end.
struct DoorSocket {
  common::Descriptor file;
  pid_t process = 0;  // as this process sees it; 0: in a namespace that it cannot look into
};

class SharedDoor {
 public:
  // Unavailable: sockets cannot be made.
  static absl::StatusOr<SharedDoor> Open();

  const std::string& name() const { return name_; }  // for the other ranks
  int file() const { return file_.get(); }           // readable: somebody is at the door

  // The next who came in; a socket that is not open: nobody. PermissionDenied: of another user.
  absl::StatusOr<DoorSocket> Accept() const;

  // Unavailable: nobody listens there; PermissionDenied: another user does.
  static absl::StatusOr<DoorSocket> Dial(const std::string& name);

 private:
  SharedDoor(std::string name, common::Descriptor file)
      : name_(std::move(name)), file_(std::move(file)) {}

  std::string name_;
  common::Descriptor file_;
};

// One packet with descriptors. False: the other end is gone, or takes nothing.
bool SendPacket(int socket, absl::string_view bytes, absl::Span<const int> files);

struct DoorPacket {
  std::string bytes;  // empty: the other end is gone
  std::vector<common::Descriptor> files;
};
// What came, of at most `most` bytes and two descriptors. Unavailable: nothing yet.
absl::StatusOr<DoorPacket> ReceivePacket(int socket, size_t most);

// A channel's memory, mapped, with all pages there that both sides use in any case.
class MappedChannel {
 public:
  MappedChannel() = default;
  // Of the sender: new memory, that cannot be made larger or smaller.
  static absl::StatusOr<MappedChannel> Create(const ChannelLabel& label, common::Descriptor* file);
  // Of the receiver. PermissionDenied: it is not what this rank's peer makes for this epoch.
  static absl::StatusOr<MappedChannel> Map(int file, int64_t epoch, int from, int to);
  MappedChannel(MappedChannel&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}
  MappedChannel& operator=(MappedChannel&& other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~MappedChannel();

  ChannelMemory* get() const { return memory_; }
  ChannelMemory* operator->() const { return memory_; }

 private:
  explicit MappedChannel(ChannelMemory* memory) : memory_(memory) {}

  ChannelMemory* memory_ = nullptr;
};

}  // namespace strata::collectives

#endif  // STRATA_COLLECTIVES_SHARED_DOOR_H_
