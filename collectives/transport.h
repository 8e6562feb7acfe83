// Messages between pairs of ranks, which is all that a backend has to supply: the operations are
// built on them once.
//
// A message carries a 64-bit tag. A receive names the peer, a tag and a mask, and takes the first
// message whose tag agrees in the bits of the mask; the other bits and the length tell it whether
// the message is the one it meant.
#ifndef STRATA_COLLECTIVES_TRANSPORT_H_
#define STRATA_COLLECTIVES_TRANSPORT_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace strata::collectives {

// One message on its way. Belongs to whoever posts it and stays where it is while `pending`; the
// transport keeps its own bookkeeping in the last members, so that posting allocates nothing.
struct Transfer {
  int peer = 0;      // world rank
  uint64_t tag = 0;  // receive: once done, the message's
  const void* from = nullptr;
  void* to = nullptr;
  int64_t bytes = 0;  // receive: room at `to`

  std::atomic<bool> pending = false;  // what follows is final when this turns false
  absl::Status status;        // of the transport; a message that does not fit is OK and `too_long`
  int64_t arrived_bytes = 0;  // receive
  bool too_long = false;      // receive: nothing beyond the room was written

  bool may_stay = false;  // receive: the bytes may stay with their sender, see Transport::Read
  bool stays = false;     // receive, once done: they do, and nothing was written

  void* owner = nullptr;  // the poster's own

  // The transport's own.
  uint64_t mask = 0;
  uint64_t address = 0;  // in its sender, of a message that stays
  uint32_t id = 0;
  void* end = nullptr;
  void* request = nullptr;
  Transfer* next = nullptr;
  Transfer* previous = nullptr;
};

// One rank's end. Called by one thread, except Wake.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Whether the peer's address is known.
  virtual bool Knows(int peer) const = 0;
  // Makes a connection, once for each peer that is known, before messages to it.
  virtual absl::Status Connect(int peer) = 0;

  // Both may finish at once. Messages of one tag between two ranks arrive in order.
  virtual void Send(Transfer* transfer) = 0;
  virtual void Receive(Transfer* transfer, uint64_t mask) = 0;

  // Of a receive that is done and `stays`: copies bytes `offset` and on, any number of times. What
  // was read counts only when Release says so, which lets the sender go on. Errors: of the peer.
  virtual absl::Status Read(const Transfer& receive, int64_t offset, void* to, int64_t bytes) = 0;
  virtual absl::Status Release(const Transfer& receive) = 0;

  // Moves messages; true when a transfer may have finished since the last Poll.
  virtual bool Poll() = 0;

  // The tag of a message that arrived and that no receive has taken, if one agrees with `tag` under
  // `mask`.
  virtual bool Probe(uint64_t tag, uint64_t mask, uint64_t* found) = 0;

  // Sleeps until Poll may find something, Wake was called since the last Wait, or the time has
  // passed.
  virtual void Wait(absl::Duration timeout) = 0;
  virtual void Wake() = 0;

  // Gives up every transfer; none is written to afterwards and none may be posted. A peer may still
  // read what was being sent.
  virtual void Abort() = 0;
};

// A list of transfers in order, through their own members.
class TransferList {
 public:
  void Append(Transfer* transfer) {
    transfer->next = nullptr;
    transfer->previous = last_;
    (last_ != nullptr ? last_->next : first_) = transfer;
    last_ = transfer;
  }
  void Remove(Transfer* transfer) {
    (transfer->previous != nullptr ? transfer->previous->next : first_) = transfer->next;
    (transfer->next != nullptr ? transfer->next->previous : last_) = transfer->previous;
    transfer->next = transfer->previous = nullptr;
  }
  Transfer* first() const { return first_; }

 private:
  Transfer* first_ = nullptr;
  Transfer* last_ = nullptr;
};

}  // namespace strata::collectives

#endif  // STRATA_COLLECTIVES_TRANSPORT_H_
