// A session as gRPC's streams give it: each direction in order, at its own pace, and broken at any
// moment, each side learning of it later and losing the tail of what was on its way.
#ifndef STRATA_SIMULATION_LINK_H_
#define STRATA_SIMULATION_LINK_H_

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "common/random.h"
#include "controller/simulator/events.h"
#include "proto/strata/v1/agent.pb.h"

namespace strata::simulation {

// One direction.
template <typename Message>
class Pipe {
 public:
  std::function<void(const Message&)> on_message;
  std::function<void()> on_end;
  double blocked_until = 0;  // a partition

  void Send(simulator::Events& events, common::Random& random, const std::shared_ptr<void>& owner,
            Message message) {
    if (broken_) return;
    // Mostly quick; now and then a packet is lost and sent again.
    const double latency =
        random.Chance(0.03) ? random.Between(0.2, 1.5) : random.Between(1e-4, 5e-3);
    due_ = std::max({due_, events.Now() + latency, blocked_until});
    const uint64_t number = ++sent_;
    events.At(due_, [this, owner, number, message = std::move(message)] {
      if (number > limit_ || ended_) return;
      received_ = number;
      if (on_message) on_message(message);
    });
  }

  void Break(simulator::Events& events, common::Random& random,
             const std::shared_ptr<void>& owner) {
    if (broken_) return;
    broken_ = true;
    limit_ =
        received_ + static_cast<uint64_t>(random.Below(static_cast<int>(sent_ - received_) + 1));
    const double noticed = random.Chance(0.7) ? random.Between(0, 0.1) : random.Between(0, 10);
    events.At(std::max(events.Now(), due_) + noticed, [this, owner] { End(); });
  }

  // The sender closes it when all has arrived.
  void Finish(simulator::Events& events, const std::shared_ptr<void>& owner) {
    if (broken_) return;
    broken_ = true;
    events.At(due_, [this, owner] { End(); });
  }

  // The receiver is gone.
  void Close() { ended_ = broken_ = true; }

 private:
  void End() {
    if (ended_) return;
    ended_ = true;
    if (on_end) on_end();
  }

  double due_ = 0;
  uint64_t sent_ = 0, received_ = 0;
  uint64_t limit_ = std::numeric_limits<uint64_t>::max();
  bool broken_ = false, ended_ = false;
};

class Link : public std::enable_shared_from_this<Link> {
 public:
  Link(simulator::Events& events, common::Random& random) : events_(events), random_(random) {}

  void SendUp(v1::AgentMessage message) {
    up.Send(events_, random_, shared_from_this(), std::move(message));
  }
  void SendDown(v1::ControllerMessage message) {
    down.Send(events_, random_, shared_from_this(), std::move(message));
  }
  void Break() {
    up.Break(events_, random_, shared_from_this());
    down.Break(events_, random_, shared_from_this());
  }

  // The agent has nothing more to say.
  void End() { up.Finish(events_, shared_from_this()); }

  Pipe<v1::AgentMessage> up;
  Pipe<v1::ControllerMessage> down;

 private:
  simulator::Events& events_;
  common::Random& random_;
};

}  // namespace strata::simulation

#endif  // STRATA_SIMULATION_LINK_H_
