// How much of the controller one caller may take: calls per second and at a time, and open streams.
#ifndef STRATA_CONTROLLER_ACCESS_CALL_LIMITS_H_
#define STRATA_CONTROLLER_ACCESS_CALL_LIMITS_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "controller/access/roles.h"
#include "controller/access/token_buckets.h"
#include "proto/strata/v1/policy.pb.h"

namespace strata::controller {

// Of the projects in which the caller has a role, the largest; none: no limit, as for whoever has a
// role in all projects or in the whole cluster, or in a project that sets none.
struct CallLimits {
  std::optional<double> calls_per_second;
  std::optional<int64_t> streams;
};
CallLimits LimitsOf(const Rights& rights, const v1::Policy& policy);

// How many things of one kind each caller has. Of one thread, or under its owner's lock.
class OpenCounts {
 public:
  // Whether the caller may have one more; then Remove is to follow.
  bool Add(const std::string& caller, int64_t most);
  void Remove(const std::string& caller);

 private:
  std::map<std::string, int64_t> counts_;  // without those that have none
};

// From any thread. Callers are named by their identity, or by their network without one.
class CallMeter {
 public:
  // Whether the caller may make one more call: so many per second, a second's worth at once. `now`:
  // seconds of any clock that does not go back.
  bool AdmitCall(const std::string& caller, double per_second, double now);
  // Whether the caller may have one more call under way; then EndCall is to follow.
  bool BeginCall(const std::string& caller, int64_t most);
  void EndCall(const std::string& caller);
  // Likewise of streams.
  bool OpenStream(const std::string& caller, int64_t most);
  void CloseStream(const std::string& caller);

 private:
  std::mutex mutex_;  // guards what follows
  TokenBuckets rates_;
  OpenCounts calls_;
  OpenCounts streams_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_ACCESS_CALL_LIMITS_H_
