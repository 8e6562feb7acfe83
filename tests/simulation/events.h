// Virtual time: what happens next is the earliest thing that somebody has put off.
#ifndef STRATA_TESTS_SIMULATION_EVENTS_H_
#define STRATA_TESTS_SIMULATION_EVENTS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "common/clock.h"

namespace strata::simulation {

class Events final : public common::Clock {
 public:
  double Now() const override { return now_; }

  void At(double time, std::function<void()> what) {
    heap_.push_back({std::max(time, now_), ++last_, std::move(what)});
    std::push_heap(heap_.begin(), heap_.end(), Later);
  }
  void After(double delay, std::function<void()> what) { At(now_ + delay, std::move(what)); }

  // False: nothing is left to happen.
  bool RunNext() {
    if (heap_.empty()) return false;
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    Event event = std::move(heap_.back());
    heap_.pop_back();
    now_ = event.time;
    event.what();
    return true;
  }

 private:
  struct Event {
    double time;
    uint64_t number;  // equal times: first put off, first done
    std::function<void()> what;
  };
  static bool Later(const Event& a, const Event& b) {
    return a.time != b.time ? a.time > b.time : a.number > b.number;
  }

  double now_ = 0;
  uint64_t last_ = 0;
  std::vector<Event> heap_;
};

}  // namespace strata::simulation

#endif  // STRATA_TESTS_SIMULATION_EVENTS_H_
