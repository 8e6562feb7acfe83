// Hears of calls that have ended.
#ifndef STRATA_CONTROLLER_SERVICE_REACTOR_CALL_OBSERVER_H_
#define STRATA_CONTROLLER_SERVICE_REACTOR_CALL_OBSERVER_H_

namespace strata::controller {

class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // From any thread. `method`: "JobService/GetJob", a literal; `code`: "NOT_FOUND".
  virtual void OnCall(const char* method, const char* code, double seconds) = 0;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_REACTOR_CALL_OBSERVER_H_
