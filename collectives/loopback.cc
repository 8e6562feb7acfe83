#include "collectives/loopback.h"

#include <condition_variable>
#include <cstring>
#include <mutex>

#include "collectives/message_communicator.h"
#include "collectives/transport.h"

namespace strata::collectives {
namespace {

// What one rank is sent. Both sides of a message meet here, under the receiver's mutex, and whoever
// comes second copies; so a transfer that has left the lists is no longer touched by anyone.
struct Mailbox {
  int rank = 0;
  std::mutex mutex;
  std::condition_variable changed;
  TransferList arrived;   // sends that no receive has taken, in order
  TransferList receives;  // that no send has met, in order
  uint64_t events = 0;    // transfers of this rank that finished, and messages that arrived
  bool woken = false;
};

using World = std::vector<std::unique_ptr<Mailbox>>;

Mailbox* SenderOf(const Transfer& send) { return static_cast<Mailbox*>(send.end); }

void Announce(Mailbox& mailbox) {
  const std::lock_guard lock(mailbox.mutex);
  ++mailbox.events;
  mailbox.changed.notify_all();
}

bool Match(const Transfer& receive, const Transfer& send) {
  return SenderOf(send)->rank == receive.peer &&
         (send.tag & receive.mask) == (receive.tag & receive.mask);
}

// Under the receiver's mutex.
void Deliver(Transfer* send, Transfer* receive) {
  receive->tag = send->tag;
  receive->arrived_bytes = send->bytes;
  receive->too_long = send->bytes > receive->bytes;
  if (!receive->too_long && send->bytes > 0) std::memcpy(receive->to, send->from, send->bytes);
  send->pending.store(false, std::memory_order_release);
  receive->pending.store(false, std::memory_order_release);
}

class LoopbackTransport final : public Transport {
 public:
  LoopbackTransport(std::shared_ptr<World> world, int rank)
      : world_(std::move(world)), rank_(rank), own_(*(*world_)[rank]) {}
  ~LoopbackTransport() override { Abort(); }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(world_->size()); }
  bool Knows(int) const override { return true; }
  absl::Status Connect(int) override { return absl::OkStatus(); }

  void Send(Transfer* send) override {
    Mailbox& mailbox = *(*world_)[send->peer];
    send->end = &own_;
    bool delivered = false;
    {
      const std::lock_guard lock(mailbox.mutex);
      Transfer* receive = mailbox.receives.first();
      while (receive != nullptr && !Match(*receive, *send)) receive = receive->next;
      if (receive != nullptr) {
        mailbox.receives.Remove(receive);
        Deliver(send, receive);
        delivered = true;
      } else {
        mailbox.arrived.Append(send);
      }
      ++mailbox.events;
      mailbox.changed.notify_all();
    }
    if (delivered) Announce(own_);
  }

  void Receive(Transfer* receive, uint64_t mask) override {
    receive->mask = mask;
    Mailbox* sender = nullptr;
    {
      const std::lock_guard lock(own_.mutex);
      Transfer* send = own_.arrived.first();
      while (send != nullptr && !Match(*receive, *send)) send = send->next;
      if (send == nullptr) {
        own_.receives.Append(receive);
        return;
      }
      own_.arrived.Remove(send);
      sender = SenderOf(*send);
      Deliver(send, receive);
      ++own_.events;
    }
    Announce(*sender);
  }

  bool Poll() override {
    const std::lock_guard lock(own_.mutex);
    const bool news = own_.events != seen_;
    seen_ = own_.events;
    return news;
  }

  bool Probe(uint64_t tag, uint64_t mask, uint64_t* found) override {
    const std::lock_guard lock(own_.mutex);
    const Transfer* send = own_.arrived.first();
    while (send != nullptr && ((send->tag ^ tag) & mask) != 0) send = send->next;
    if (send != nullptr) *found = send->tag;
    return send != nullptr;
  }

  void Wait(absl::Duration timeout) override {
    std::unique_lock lock(own_.mutex);
    own_.changed.wait_for(lock, absl::ToChronoNanoseconds(timeout),
                          [this] { return own_.woken || own_.events != seen_; });
    own_.woken = false;
  }

  void Wake() override {
    const std::lock_guard lock(own_.mutex);
    own_.woken = true;
    own_.changed.notify_all();
  }

  void Abort() override {
    for (const auto& mailbox : *world_) {
      const std::lock_guard lock(mailbox->mutex);
      for (Transfer* send = mailbox->arrived.first(); send != nullptr;) {
        Transfer* const next = send->next;
        if (SenderOf(*send) == &own_) mailbox->arrived.Remove(send);
        send = next;
      }
      if (mailbox.get() == &own_) own_.receives = TransferList();
    }
  }

 private:
  const std::shared_ptr<World> world_;
  const int rank_;
  Mailbox& own_;
  uint64_t seen_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> LoopbackWorld(int size, int max_operations) {
  auto world = std::make_shared<World>();
  for (int rank = 0; rank < size; ++rank) {
    world->push_back(std::make_unique<Mailbox>());
    world->back()->rank = rank;
  }
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < size; ++rank) {
    communicators.push_back(std::make_unique<MessageCommunicator>(
        std::make_unique<LoopbackTransport>(world, rank), max_operations));
  }
  return communicators;
}

}  // namespace strata::collectives
