// When a process that died is started again.
#ifndef STRATA_CLIENT_LOCAL_CLUSTER_BACK_OFF_H_
#define STRATA_CLIENT_LOCAL_CLUSTER_BACK_OFF_H_

#include <algorithm>

namespace strata::client {

// Pauses of 0.1 s, doubling up to 8 s; from the start again after a life of at least 10 s.
class BackOff {
 public:
  static constexpr double kFirst = 0.1;
  static constexpr double kLongest = 8;
  static constexpr double kGoodLife = 10;

  // Seconds to wait after a life of `lived` seconds.
  double After(double lived) {
    const double pause = lived >= kGoodLife ? kFirst : next_;
    next_ = std::min(2 * pause, kLongest);
    return pause;
  }

 private:
  double next_ = kFirst;
};

}  // namespace strata::client

#endif  // STRATA_CLIENT_LOCAL_CLUSTER_BACK_OFF_H_
