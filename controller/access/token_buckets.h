// Token buckets of many callers, in bounded memory.
#ifndef STRATA_CONTROLLER_ACCESS_TOKEN_BUCKETS_H_
#define STRATA_CONTROLLER_ACCESS_TOKEN_BUCKETS_H_

#include <cstddef>
#include <map>
#include <string>

namespace strata::controller {

// Of one thread, or under its owner's lock.
class TokenBuckets {
 public:
  static constexpr size_t kMostCallers = 1024;  // remembered

  struct Rate {
    double per_second = 1;
    double burst = 1;  // at once
  };
  // Whether the caller may once more. `now`: seconds of any clock that does not go back.
  bool Take(const std::string& caller, const Rate& rate, double now);

 private:
  struct Bucket {
    double left;
    double at;  // seconds
  };
  std::map<std::string, Bucket> buckets_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_ACCESS_TOKEN_BUCKETS_H_
