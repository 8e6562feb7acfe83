#include "collectives/loopback.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>

#include "collectives/message_communicator.h"
#include "collectives/transport.h"
#include "common/clock.h"

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
  std::mutex due_mutex;                           // taken last
  std::vector<std::pair<double, Transfer*>> due;  // throttled: what of this rank ends when
};

struct World {
  std::vector<std::unique_ptr<Mailbox>> mailboxes;
  LinkThrottle throttle;
  std::mutex links_mutex;
  std::vector<double> links;  // when the link out of a rank is free; guarded by links_mutex
};

double Now() { return common::MonotonicClock().Now(); }

// When a message that is sent now arrives; 0: at once.
double ArrivalOf(World& world, int sender, int64_t bytes) {
  if (!world.throttle.on()) return 0;
  const std::lock_guard lock(world.links_mutex);
  double& link = world.links[sender];
  link = std::max(link, Now()) + world.throttle.SecondsOf(bytes);
  return link + world.throttle.latency_seconds;
}

Mailbox* SenderOf(const Transfer& send) { return static_cast<Mailbox*>(send.end); }

void Announce(Mailbox& mailbox) {
  const std::lock_guard lock(mailbox.mutex);
  ++mailbox.events;
  mailbox.changed.notify_all();
}

// The transfer of the mailbox's rank ends, or will. Under the receiver's mutex.
void End(Mailbox& mailbox, Transfer* transfer, double arrival) {
  if (arrival > 0) {
    const std::lock_guard lock(mailbox.due_mutex);
    mailbox.due.emplace_back(arrival, transfer);
  } else {
    transfer->pending.store(false, std::memory_order_release);
  }
}

bool Match(const Transfer& receive, const Transfer& send) {
  return SenderOf(send)->rank == receive.peer &&
         (send.tag & receive.mask) == (receive.tag & receive.mask);
}

// Under the receiver's mutex.
void Deliver(World& world, Mailbox& receiver, Transfer* send, Transfer* receive) {
  receive->tag = send->tag;
  receive->arrived_bytes = send->bytes;
  receive->too_long = send->bytes > receive->bytes;
  if (!receive->too_long && send->bytes > 0) std::memcpy(receive->to, send->from, send->bytes);
  Mailbox& sender = *SenderOf(*send);
  const double arrival = ArrivalOf(world, sender.rank, send->bytes);
  End(sender, send, arrival);
  End(receiver, receive, arrival);
}

class LoopbackTransport final : public Transport {
 public:
  LoopbackTransport(std::shared_ptr<World> world, int rank)
      : world_(std::move(world)), rank_(rank), own_(*world_->mailboxes[rank]) {}
  ~LoopbackTransport() override { Abort(); }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(world_->mailboxes.size()); }
  bool Knows(int) const override { return true; }
  absl::Status Connect(int) override { return absl::OkStatus(); }

  void Send(Transfer* send) override {
    Mailbox& mailbox = *world_->mailboxes[send->peer];
    send->end = &own_;
    bool delivered = false;
    {
      const std::lock_guard lock(mailbox.mutex);
      Transfer* receive = mailbox.receives.first();
      while (receive != nullptr && !Match(*receive, *send)) receive = receive->next;
      if (receive != nullptr) {
        mailbox.receives.Remove(receive);
        Deliver(*world_, mailbox, send, receive);
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
      Deliver(*world_, own_, send, receive);
      ++own_.events;
    }
    Announce(*sender);
  }

  // Nothing stays.
  absl::Status Read(const Transfer&, int64_t, void*, int64_t) override {
    return absl::UnimplementedError("messages of threads are copied");
  }
  absl::Status Release(const Transfer&) override { return absl::OkStatus(); }

  bool Poll() override {
    const std::lock_guard lock(own_.mutex);
    EndDue();
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
    double seconds = absl::ToDoubleSeconds(timeout);
    {
      const std::lock_guard due(own_.due_mutex);
      for (const auto& [arrival, transfer] : own_.due) {
        seconds = std::min(seconds, std::max(0.0, arrival - Now()));
      }
    }
    own_.changed.wait_for(lock, absl::ToChronoNanoseconds(absl::Seconds(seconds)),
                          [this] { return own_.woken || own_.events != seen_; });
    own_.woken = false;
  }

  void Wake() override {
    const std::lock_guard lock(own_.mutex);
    own_.woken = true;
    own_.changed.notify_all();
  }

  void Abort() override {
    for (const auto& mailbox : world_->mailboxes) {
      const std::lock_guard lock(mailbox->mutex);
      for (Transfer* send = mailbox->arrived.first(); send != nullptr;) {
        Transfer* const next = send->next;
        if (SenderOf(*send) == &own_) mailbox->arrived.Remove(send);
        send = next;
      }
      if (mailbox.get() != &own_) continue;
      own_.receives = TransferList();
    }
    const std::lock_guard lock(own_.due_mutex);
    own_.due.clear();
  }

 private:
  // Under the mailbox's mutex.
  void EndDue() {
    const std::lock_guard lock(own_.due_mutex);
    if (own_.due.empty()) return;
    const double now = Now();
    std::erase_if(own_.due, [&](const std::pair<double, Transfer*>& each) {
      if (each.first > now) return false;
      each.second->pending.store(false, std::memory_order_release);
      ++own_.events;
      return true;
    });
  }

  const std::shared_ptr<World> world_;
  const int rank_;
  Mailbox& own_;
  uint64_t seen_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> LoopbackWorld(int size, int max_operations,
                                                         const LinkThrottle& throttle) {
  auto world = std::make_shared<World>();
  world->throttle = throttle;
  world->links.resize(size);
  for (int rank = 0; rank < size; ++rank) {
    world->mailboxes.push_back(std::make_unique<Mailbox>());
    world->mailboxes.back()->rank = rank;
  }
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < size; ++rank) {
    communicators.push_back(std::make_unique<MessageCommunicator>(
        std::make_unique<LoopbackTransport>(world, rank), max_operations));
  }
  return communicators;
}

}  // namespace strata::collectives
