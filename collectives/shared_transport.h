// Messages between ranks of one host, in memory they share: one channel (shared_channel.h) in each
// direction between two ranks, made when they connect; afterwards nothing is allocated.
//
// A message that stays in its sender's memory is copied once, by the receiver, where the kernel
// lets a process read another one of its user (process_vm_readv; Yama and containers may not), and
// else twice, through chunks. The sockets over which two ranks met stay open: when one of them
// hangs up, the peer is lost.
#ifndef STRATA_COLLECTIVES_SHARED_TRANSPORT_H_
#define STRATA_COLLECTIVES_SHARED_TRANSPORT_H_

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/connection_mark.h"
#include "collectives/shared_channel.h"
#include "collectives/shared_door.h"
#include "collectives/transport.h"
#include "common/descriptor.h"

namespace strata::collectives {

// One rank's end, as Transport (transport.h) says where nothing else is said.
class SharedTransport {
 public:
  // `direct`: whether the kernel is asked to let peers' memory be read.
  static absl::StatusOr<std::unique_ptr<SharedTransport>> Create(SharedDoor door, WorldKey key,
                                                                 int rank, int size, bool direct);
  ~SharedTransport();

  // `door`: the name of the peer's. Unavailable: it has ended.
  absl::Status Connect(int peer, const std::string& door);
  void Send(Transfer* send);
  void Receive(Transfer* receive, uint64_t mask);
  absl::Status Read(const Transfer& receive, int64_t offset, void* to, int64_t bytes);
  absl::Status Release(const Transfer& receive);
  bool Poll();
  bool Probe(uint64_t tag, uint64_t mask, uint64_t* found) const;
  void Abort();

  // Before a sleep until file() is readable; false: there is something to do at once. In any case
  // EndSleep comes next.
  bool BeginSleep();
  void EndSleep(bool readable);
  int file() const { return aborted_ ? -1 : events_.get(); }

  // For tests: connections refused; whether both channels to a rank are there, and whether its
  // memory is read directly.
  int64_t refused() const { return refused_; }
  bool ready(int peer) const { return peers_[peer] != nullptr && peers_[peer]->ready(); }
  bool reads_directly(int peer) const { return peers_[peer] != nullptr && peers_[peer]->direct; }

 private:
  struct Taking {
    Transfer* receive = nullptr;
    ChannelCell cell;
    int64_t position = 0;  // bytes so far
  };

  struct Peer {
    int rank = 0;
    absl::Status lost;
    common::Descriptor bell;  // it sleeps on

    // To it.
    DoorSocket out_socket;
    MappedChannel out_memory;
    std::unique_ptr<ChannelSender> out;
    std::string challenge;  // empty: answered
    std::array<Transfer*, kChannelIds> sent = {};
    std::vector<uint32_t> wanted;  // ids to pass through chunks, in order
    int64_t filled = 0;            // bytes of the first

    // From it.
    DoorSocket in_socket;
    MappedChannel in_memory;
    std::unique_ptr<ChannelReceiver> in;
    bool direct = false;
    TransferList receives;             // that no message has met
    std::vector<ChannelCell> arrived;  // that no receive has met
    std::vector<Taking> taking;        // met, in order

    bool ready() const { return out != nullptr && in != nullptr && challenge.empty(); }
  };

  SharedTransport(SharedDoor door, WorldKey key, int rank, int size, bool direct);
  absl::Status Start();

  // shared_joining.cc: sockets.
  Peer& PeerOf(int rank);
  absl::Status Watch(int file, uint64_t what);
  void LookAtSockets();
  void AnswerDoor();
  void HearStranger(int file);
  absl::Status Admit(DoorSocket& socket, DoorPacket& packet);
  void HearPeer(Peer& peer, bool out);
  bool TakeAnswerOf(Peer& peer);
  void Refuse(pid_t process, const absl::Status& why);
  void ProbeMemory(Peer& peer) const;

  // shared_transport.cc: messages.
  bool PollPeer(Peer& peer);
  bool TakeAnswers(Peer& peer);
  bool FillChunks(Peer& peer);
  bool TakeCells(Peer& peer);
  void Begin(Peer& peer, Transfer* receive, const ChannelCell& cell);
  bool Copy(Peer& peer);
  void EndFirst(Peer& peer);
  bool CopyDirectly(Peer& peer, Taking& taking);
  bool CopyChunks(Peer& peer, Taking& taking);
  bool HasWork(const Peer& peer) const;
  bool StillCounts(const Peer& peer) const;
  void Lose(Peer& peer, const std::string& why);
  void LoseUnreadable(Peer& peer);
  void End(Transfer* transfer, const absl::Status& status);
  static void Ring(Peer& peer);

  const SharedDoor door_;
  const WorldKey key_;
  const int rank_;
  const bool direct_;
  const uint64_t probe_;                      // peers read it here
  common::Descriptor events_, bell_;          // epoll, of all sockets and the bell
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; null: not of this host, or not yet
  std::vector<Peer*> known_;                  // those that are not null
  std::map<int, DoorSocket> strangers_;       // who came in and has said nothing yet
  int64_t refused_ = 0;
  uint32_t polls_ = 0;
  bool finished_ = false;  // a transfer, since the last Poll
  bool aborted_ = false;
};

}  // namespace strata::collectives

#endif  // STRATA_COLLECTIVES_SHARED_TRANSPORT_H_
