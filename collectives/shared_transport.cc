#include "collectives/shared_transport.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace strata::collectives {
namespace {

// Of one Poll and peer: some tens of microseconds, so that other messages keep flowing.
constexpr int64_t kCopyBytes = 512 << 10;
// Polls between looks at the sockets of one who never sleeps.
constexpr uint32_t kPollsToLook = 1024;

constexpr char kWithdrawn[] = "it gave up in the middle of a message";

// Of another process, at most so many bytes; not positive: errno says why not.
int64_t ReadMemory(pid_t process, uint64_t address, void* to, int64_t bytes) {
  iovec here = {to, static_cast<size_t>(bytes)};
  iovec there = {reinterpret_cast<void*>(address), static_cast<size_t>(bytes)};
  return process_vm_readv(process, &here, 1, &there, 1, 0);
}

bool Matches(const Transfer& receive, uint64_t tag) {
  return ((receive.tag ^ tag) & receive.mask) == 0;
}

}  // namespace

void SharedTransport::Ring(Peer& peer) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t bytes = write(peer.bell.get(), &one, sizeof(one));
}

void SharedTransport::End(Transfer* transfer, const absl::Status& status) {
  transfer->status = status;
  finished_ = true;
  transfer->pending.store(false, std::memory_order_release);
}

void SharedTransport::Send(Transfer* send) {
  Peer& peer = *peers_[send->peer];
  if (!peer.lost.ok()) return End(send, peer.lost);
  bool copied = false;
  const uint32_t id = peer.out->Send(send->tag, send->from, send->bytes, &copied);
  peer.sent[id] = copied ? nullptr : send;
  if (copied) End(send, absl::OkStatus());
  // Who has not answered yet is rung for when it does.
  if (peer.bell.is_open() && peer.out->MustRing()) Ring(peer);
}

void SharedTransport::Receive(Transfer* receive, uint64_t mask) {
  Peer& peer = *peers_[receive->peer];
  receive->mask = mask;
  const auto found =
      std::find_if(peer.arrived.begin(), peer.arrived.end(),
                   [&](const ChannelCell& cell) { return Matches(*receive, cell.tag); });
  if (found != peer.arrived.end()) {
    const ChannelCell cell = *found;
    peer.arrived.erase(found);
    Begin(peer, receive, cell);
  } else if (!peer.lost.ok()) {
    End(receive, peer.lost);
  } else {
    peer.receives.Append(receive);
  }
}

bool SharedTransport::Poll() {
  if (aborted_) return false;
  const bool joining = std::any_of(known_.begin(), known_.end(), [](const Peer* peer) {
    return !peer->ready() && peer->lost.ok();
  });
  if (joining || ++polls_ % kPollsToLook == 0) LookAtSockets();
  bool news = false;
  for (Peer* const peer : known_) news |= peer->lost.ok() && PollPeer(*peer);
  news |= finished_;
  finished_ = false;
  return news;
}

bool SharedTransport::PollPeer(Peer& peer) {
  bool news = false;
  if (peer.out != nullptr) {
    news |= TakeAnswers(peer);
    if (!peer.wanted.empty() && peer.lost.ok()) news |= FillChunks(peer);
    if (peer.bell.is_open() && peer.out->MustRing()) Ring(peer);
  }
  if (peer.in != nullptr && peer.lost.ok()) {
    news |= TakeCells(peer);
    if (!peer.taking.empty() && peer.lost.ok()) news |= Copy(peer);
    if (peer.lost.ok() && peer.in->MustRing()) Ring(peer);
  }
  return news;
}

bool SharedTransport::TakeAnswers(Peer& peer) {
  bool news = false, sound = true;
  ChannelAnswer answer;
  while (peer.out->Next(&answer, &sound)) {
    Transfer* const send = peer.sent[answer.id];
    if (answer.wanted) {
      if (send == nullptr || peer.wanted.size() == kChannelIds) sound = false;
      if (!sound) break;
      peer.wanted.push_back(answer.id);
    } else if (send != nullptr) {
      peer.sent[answer.id] = nullptr;
      End(send, absl::OkStatus());
    }
    news = true;
  }
  if (!sound) Lose(peer, "it answers what it was not sent");
  return news;
}

bool SharedTransport::FillChunks(Peer& peer) {
  bool news = false;
  while (!peer.wanted.empty()) {
    Transfer* const send = peer.sent[peer.wanted.front()];
    if (send == nullptr) {
      Lose(peer, "it wants what it has taken");
      return true;
    }
    std::byte* const chunk = peer.out->FreeChunk();
    if (chunk == nullptr) break;
    const int64_t bytes = std::min(kChunkBytes, send->bytes - peer.filled);
    std::memcpy(chunk, static_cast<const std::byte*>(send->from) + peer.filled, bytes);
    peer.out->Fill();
    peer.filled += bytes;
    news = true;
    if (peer.filled < send->bytes) continue;
    peer.sent[peer.wanted.front()] = nullptr;  // the id is free when all of it was taken
    peer.wanted.erase(peer.wanted.begin());
    peer.filled = 0;
    End(send, absl::OkStatus());
  }
  return news;
}

bool SharedTransport::TakeCells(Peer& peer) {
  bool news = false, sound = true;
  ChannelCell cell;
  while (peer.in->Next(&cell, &sound)) {
    news = true;
    Transfer* receive = peer.receives.first();
    while (receive != nullptr && !Matches(*receive, cell.tag)) receive = receive->next;
    if (receive != nullptr) {
      peer.receives.Remove(receive);
      Begin(peer, receive, cell);
    } else if (peer.arrived.size() < kChannelIds) {
      peer.arrived.push_back(cell);
    } else {
      sound = false;
      break;
    }
  }
  if (!sound && peer.lost.ok()) Lose(peer, "it sends what cannot be");
  return news;
}

absl::Status SharedTransport::Read(const Transfer& receive, int64_t offset, void* to,
                                   int64_t bytes) {
  Peer& peer = *peers_[receive.peer];
  for (int64_t at = 0; at < bytes && peer.lost.ok();) {
    const int64_t got = ReadMemory(peer.in_socket.process, receive.address + offset + at,
                                   static_cast<std::byte*>(to) + at, bytes - at);
    if (got <= 0) LoseUnreadable(peer);
    at += got;
  }
  return peer.lost;
}

absl::Status SharedTransport::Release(const Transfer& receive) {
  Peer& peer = *peers_[receive.peer];
  if (peer.lost.ok() && !StillCounts(peer)) Lose(peer, kWithdrawn);
  if (!peer.lost.ok()) return peer.lost;
  peer.in->Answer(receive.id, false);
  if (peer.in->MustRing()) Ring(peer);
  return absl::OkStatus();
}

// A message and its receive have met.
void SharedTransport::Begin(Peer& peer, Transfer* receive, const ChannelCell& cell) {
  receive->tag = cell.tag;
  receive->arrived_bytes = cell.bytes;
  receive->too_long = cell.bytes > receive->bytes;
  if (cell.copied == 0 && cell.bytes > 0 && !receive->too_long) {
    if (!peer.lost.ok()) return End(receive, peer.lost);
    if (receive->may_stay && peer.direct && receive->bytes == cell.bytes) {
      receive->stays = true;
      receive->address = cell.address;
      receive->id = cell.id;
      return End(receive, absl::OkStatus());
    }
    peer.taking.push_back({.receive = receive, .cell = cell});
    if (!peer.direct) peer.in->Answer(cell.id, true);
  } else {
    if (cell.bytes > 0 && !receive->too_long) {
      std::memcpy(receive->to, peer.in->Copied(cell), cell.bytes);
    }
    peer.in->Answer(cell.id, false);
    End(receive, absl::OkStatus());
  }
  if (peer.lost.ok() && peer.in->MustRing()) Ring(peer);
}

bool SharedTransport::Copy(Peer& peer) {
  Taking& taking = peer.taking.front();
  const bool moved = peer.direct ? CopyDirectly(peer, taking) : CopyChunks(peer, taking);
  if (!peer.lost.ok() || taking.position < taking.cell.bytes) return moved;
  if (peer.direct && !StillCounts(peer)) {
    Lose(peer, kWithdrawn);
    return true;
  }
  EndFirst(peer);
  return true;
}

void SharedTransport::EndFirst(Peer& peer) {
  const Taking first = peer.taking.front();
  peer.taking.erase(peer.taking.begin());
  peer.in->Answer(first.cell.id, false);
  End(first.receive, absl::OkStatus());
}

bool SharedTransport::CopyDirectly(Peer& peer, Taking& taking) {
  const int64_t bytes = std::min(kCopyBytes, taking.cell.bytes - taking.position);
  const int64_t got =
      ReadMemory(peer.in_socket.process, taking.cell.address + taking.position,
                 static_cast<std::byte*>(taking.receive->to) + taking.position, bytes);
  if (got <= 0) {
    LoseUnreadable(peer);
    return true;
  }
  taking.position += got;
  return true;
}

bool SharedTransport::CopyChunks(Peer& peer, Taking& taking) {
  bool moved = false;
  while (taking.position < taking.cell.bytes) {
    const std::byte* const chunk = peer.in->FullChunk();
    if (chunk == nullptr) break;
    const int64_t bytes = std::min(kChunkBytes, taking.cell.bytes - taking.position);
    std::memcpy(static_cast<std::byte*>(taking.receive->to) + taking.position, chunk, bytes);
    peer.in->Empty();
    taking.position += bytes;
    moved = true;
  }
  return moved;
}

// Whether what was read up to now of its memory was what it sent: after its end the memory may be
// another process's, and after it gave up, used for something else.
bool SharedTransport::StillCounts(const Peer& peer) const {
  char byte = 0;
  return !peer.in->GivenUp() &&
         recv(peer.in_socket.file.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
         (errno == EAGAIN || errno == EINTR);
}

void SharedTransport::LoseUnreadable(Peer& peer) {
  const int error = errno;
  Lose(peer, peer.in->GivenUp()
                 ? kWithdrawn
                 : absl::StrCat("its memory cannot be read: ", std::strerror(error)));
}

// What it sent whole before still counts, and what it said it had taken; all else with it fails.
void SharedTransport::Lose(Peer& peer, const std::string& why) {
  if (!peer.lost.ok()) return;
  AnswerDoor();  // it may have sent something before this rank has answered it
  peer.lost = absl::UnavailableError(absl::StrCat("rank ", peer.rank, " was lost: ", why));
  if (peer.in != nullptr) TakeCells(peer);
  if (peer.out != nullptr) TakeAnswers(peer);
  while (!peer.taking.empty() && !peer.direct) {  // what lies in chunks
    CopyChunks(peer, peer.taking.front());
    if (peer.taking.front().position < peer.taking.front().cell.bytes) break;
    EndFirst(peer);
  }
  for (const Taking& taking : peer.taking) End(taking.receive, peer.lost);
  peer.taking.clear();
  while (Transfer* const receive = peer.receives.first()) {
    peer.receives.Remove(receive);
    End(receive, peer.lost);
  }
  for (Transfer*& send : peer.sent) {
    if (send != nullptr) End(std::exchange(send, nullptr), peer.lost);
  }
  peer.wanted.clear();
  peer.out_socket.file.Close();
  peer.in_socket.file.Close();
}

bool SharedTransport::Probe(uint64_t tag, uint64_t mask, uint64_t* found) const {
  for (const Peer* const peer : known_) {
    for (const ChannelCell& cell : peer->arrived) {
      if (((cell.tag ^ tag) & mask) != 0) continue;
      *found = cell.tag;
      return true;
    }
  }
  return false;
}

bool SharedTransport::HasWork(const Peer& peer) const {
  if (!peer.lost.ok()) return false;
  if (peer.out != nullptr &&
      (peer.out->HasAnswer() || (!peer.wanted.empty() && peer.out->FreeChunk() != nullptr))) {
    return true;
  }
  return peer.in != nullptr &&
         (peer.in->HasCell() ||
          (!peer.taking.empty() && (peer.direct || peer.in->FullChunk() != nullptr)));
}

bool SharedTransport::BeginSleep() {
  if (aborted_) return true;
  for (Peer* const peer : known_) {
    if (peer->out != nullptr) peer->out->SetSleeps(true);
    if (peer->in != nullptr) peer->in->SetSleeps(true);
  }
  return !finished_ && std::none_of(known_.begin(), known_.end(),
                                    [&](const Peer* peer) { return HasWork(*peer); });
}

void SharedTransport::EndSleep(bool readable) {
  if (aborted_) return;
  for (Peer* const peer : known_) {
    if (peer->out != nullptr) peer->out->SetSleeps(false);
    if (peer->in != nullptr) peer->in->SetSleeps(false);
  }
  if (readable) LookAtSockets();
}

void SharedTransport::Abort() {
  if (aborted_) return;
  aborted_ = true;
  for (Peer* const peer : known_) {
    if (peer->out != nullptr) peer->out->GiveUp();
    peer->receives = TransferList();
    peer->taking.clear();
    peer->sent.fill(nullptr);
    peer->wanted.clear();
  }
}

}  // namespace strata::collectives
