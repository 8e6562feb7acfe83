// The passage of time, which enters through constructors so that tests and simulations can supply
// their own.
#ifndef STRATA_COMMON_CLOCK_H_
#define STRATA_COMMON_CLOCK_H_

#include <chrono>

namespace strata::common {

class Clock {
 public:
  virtual ~Clock() = default;
  // Seconds since an arbitrary, fixed moment; never goes backwards.
  virtual double Now() const = 0;
};

class MonotonicClock final : public Clock {
 public:
  double Now() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

class ManualClock final : public Clock {
 public:
  double Now() const override { return now_; }
  void Advance(double seconds) { now_ += seconds; }

 private:
  double now_ = 0;
};

// Seconds since 1970 by the machine's calendar, for display and for deadlines that peers gave as
// moments; may jump in both directions.
inline double WallSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace strata::common

#endif  // STRATA_COMMON_CLOCK_H_
