// How much of the controller one user may take: calls per second, and open streams.
#ifndef STRATA_CONTROLLER_ACCESS_CALL_LIMITS_H_
#define STRATA_CONTROLLER_ACCESS_CALL_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "controller/access/roles.h"
#include "proto/strata/v1/policy.pb.h"

namespace strata::controller {

// Of the projects in which the caller has a role, the largest; none: no limit, as for whoever has a
// role in all projects or in the whole cluster, or in a project that sets none.
struct CallLimits {
  std::optional<double> calls_per_second;
  std::optional<int64_t> streams;
};
CallLimits LimitsOf(const Rights& rights, const v1::Policy& policy);

// From any thread.
class CallMeter {
 public:
  static constexpr size_t kMostCallers = 1024;  // remembered

  // Whether the caller may make one more call: so many per second, a second's worth at once. `now`:
  // seconds of any clock that does not go back.
  bool AdmitCall(const std::string& caller, double per_second, double now);
  // Whether the caller may have one more stream open; then CloseStream is to follow.
  bool OpenStream(const std::string& caller, int64_t most);
  void CloseStream(const std::string& caller);

 private:
  struct Allowance {
    double left;
    double at;  // seconds
  };
  std::mutex mutex_;  // guards what follows
  std::map<std::string, Allowance> calls_;
  std::map<std::string, int64_t> streams_;  // without those that have none
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_ACCESS_CALL_LIMITS_H_
