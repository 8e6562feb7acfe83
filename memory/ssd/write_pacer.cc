#include "memory/ssd/write_pacer.h"

#include <algorithm>

namespace strata::memory {

double WritePacer::EndStep(int64_t written, double seconds, double stalled) {
  const auto rate = [&] { return unpaced_ > 0 ? 0 : mean_rate_ * factor_; };
  const double worked = seconds - std::clamp(stalled, 0.0, seconds);
  // A step that writes nothing (an evaluation) says nothing, nor does one that did nothing else.
  if (written <= 0 || worked <= 0) return rate();
  const double mean = static_cast<double>(written) / worked;
  if (unpaced_ > 0) {
    --unpaced_;
    mean_rate_ = std::max(mean, mean_rate_);
    return rate();
  }
  // Up at once, down slowly: a slow step does not make the next one wait.
  mean_rate_ = std::max(mean, kFall * mean_rate_);
  if (stalled > kMostStalled * seconds) {
    factor_ = std::min(factor_ * kRise, kMost);
    hold_ = kHoldSteps;
  } else if (hold_ > 0) {
    --hold_;
  } else {
    factor_ = std::max(factor_ * kFall, 1.0);
  }
  return rate();
}

}  // namespace strata::memory
