// What is to be done after a while, unless it has become needless: on the reactor's thread.
#ifndef STRATA_CONTROLLER_SERVICE_REACTOR_DEADLINES_H_
#define STRATA_CONTROLLER_SERVICE_REACTOR_DEADLINES_H_

#include <deque>
#include <functional>
#include <mutex>

#include "common/clock.h"
#include "controller/service/reactor/reactor.h"

namespace strata::controller {

class Deadlines final : public Reactor::Listener {
 public:
  // Borrowed: the clock. `seconds` from Add on.
  Deadlines(const common::Clock* clock, double seconds) : clock_(clock), seconds_(seconds) {}

  // From any thread.
  void Add(std::function<void()> then);
  void OnTick(const Core& core) override;

 private:
  struct Deadline {
    double at;
    std::function<void()> then;
  };
  const common::Clock* const clock_;
  const double seconds_;
  std::mutex mutex_;
  std::deque<Deadline> waiting_;  // in their order
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_REACTOR_DEADLINES_H_
