#include "controller/logic/restart_policy.h"

#include <algorithm>

namespace strata::controller {

int64_t WithoutProgressAfter(const v1::JobRecord& job, bool counts) {
  const bool progress = job.has_checkpoint() && job.checkpoint().epoch() == job.epoch();
  return progress ? 0 : job.restarts_without_progress() + (counts ? 1 : 0);
}

bool MayRestart(const v1::JobRecord& job, int64_t without_progress) {
  const v1::RestartSpec& restart = job.spec().restart();
  return without_progress <=
         (restart.has_max_without_progress() ? restart.max_without_progress() : 3);
}

double BackOff(int64_t without_progress, double first) {
  if (without_progress <= 1) return 0;
  const int64_t doublings = std::min<int64_t>(without_progress - 2, 30);
  return std::min(kLongestBackOffSeconds, first * static_cast<double>(int64_t{1} << doublings));
}

}  // namespace strata::controller
