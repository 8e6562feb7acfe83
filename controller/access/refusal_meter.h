// How many refusals of one caller are recorded: who is refused all the time fills no disk, and
// hides nobody else's.
#ifndef STRATA_CONTROLLER_ACCESS_REFUSAL_METER_H_
#define STRATA_CONTROLLER_ACCESS_REFUSAL_METER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace strata::controller {

class RefusalMeter {
 public:
  static constexpr double kBurst = 20;     // refusals of a caller that are recorded at once
  static constexpr double kPerSecond = 1;  // and from then on
  static constexpr size_t kMostCallers = 1024;

  // Whether this one is to be recorded; then how many of the caller's were not, since the last one
  // that was. `now`: seconds of any clock that does not go back.
  std::optional<int64_t> Admit(const std::string& caller, double now);

 private:
  struct Allowance {
    double left = kBurst;
    double at = 0;  // seconds
    int64_t unrecorded = 0;
  };
  std::map<std::string, Allowance> callers_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_ACCESS_REFUSAL_METER_H_
