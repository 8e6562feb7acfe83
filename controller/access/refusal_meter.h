// How many refusals are recorded: who is refused all the time fills no disk, and hides nobody
// else's.
#ifndef STRATA_CONTROLLER_ACCESS_REFUSAL_METER_H_
#define STRATA_CONTROLLER_ACCESS_REFUSAL_METER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "controller/access/token_buckets.h"

namespace strata::controller {

// From any thread.
class RefusalMeter {
 public:
  struct Limits {
    // Of one caller: an identity, or the network of callers without one.
    TokenBuckets::Rate of_one = {.per_second = 1, .burst = 20};
    // Of all callers without an identity: networks are cheap.
    TokenBuckets::Rate of_unknown = {.per_second = 5, .burst = 100};
  };

  explicit RefusalMeter(const Limits& limits) : limits_(limits) {}

  // Whether this one is to be recorded; then how many of the caller's were not, since the last one
  // that was. `now`: seconds of any clock that does not go back.
  std::optional<int64_t> Admit(const std::string& caller, bool is_known, double now);

 private:
  const Limits limits_;
  std::mutex mutex_;  // guards what follows
  TokenBuckets callers_;
  TokenBuckets unknown_;
  // By caller; of those that there is no room for, together, with the empty one.
  std::map<std::string, int64_t> unrecorded_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_ACCESS_REFUSAL_METER_H_
