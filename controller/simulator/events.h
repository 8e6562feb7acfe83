// Virtual time: what happens next is the earliest thing that somebody has put off.
#ifndef STRATA_CONTROLLER_SIMULATOR_EVENTS_H_
#define STRATA_CONTROLLER_SIMULATOR_EVENTS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "common/clock.h"

namespace strata::simulator {

class Events final : public common::Clock {
 public:
  double Now() const override { return now_; }
  int64_t done() const { return done_; }  // events that have happened; the present one included

  void At(double time, std::function<void()> what) {
    heap_.push_back({std::max(time, now_), ++last_, std::move(what)});
    std::push_heap(heap_.begin(), heap_.end(), Later);
  }
  void After(double seconds, std::function<void()> what) { At(now_ + seconds, std::move(what)); }

  // False: nothing is left to happen.
  bool RunNext() { return RunNext(std::numeric_limits<double>::max()); }

  // False: nothing happens before `end`, which it is then.
  bool RunNextBefore(double end) {
    if (RunNext(end)) return true;
    now_ = std::max(now_, end);
    return false;
  }

 private:
  bool RunNext(double end) {
    if (heap_.empty() || heap_.front().time > end) return false;
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    Event event = std::move(heap_.back());
    heap_.pop_back();
    now_ = event.time;
    ++done_;
    event.what();
    return true;
  }

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
  int64_t done_ = 0;
  std::vector<Event> heap_;
};

}  // namespace strata::simulator

#endif  // STRATA_CONTROLLER_SIMULATOR_EVENTS_H_
