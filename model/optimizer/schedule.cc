#include "model/optimizer/schedule.h"

#include <algorithm>
#include <cmath>

namespace strata::model {
namespace {

constexpr double kPi = 3.141592653589793;

double Ratio(int64_t part, int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

double Cosine(const ScheduleSpec& s, int64_t step) {
  const double progress = Ratio(step - s.warmup_steps, s.steps - s.warmup_steps);
  const double above = 0.5 * (1 + std::cos(kPi * progress));
  return s.peak * (s.final_fraction + (1 - s.final_fraction) * above);
}

double WarmupStableDecay(const ScheduleSpec& s, int64_t step) {
  const int64_t wanted = std::llround(s.decay_fraction * static_cast<double>(s.steps));
  const int64_t decay_steps = std::min(std::max<int64_t>(wanted, 1), s.steps - s.warmup_steps);
  const int64_t start = s.steps - decay_steps;
  if (step <= start) return s.peak;
  return s.peak * (1 - (1 - s.final_fraction) * Ratio(step - start, decay_steps));
}

}  // namespace

double LearningRate(const ScheduleSpec& schedule, int64_t step) {
  step = std::min(step, schedule.steps);
  if (step <= schedule.warmup_steps) return schedule.peak * Ratio(step, schedule.warmup_steps);
  switch (schedule.kind) {
    case ScheduleSpec::Kind::kCosine:
      return Cosine(schedule, step);
    case ScheduleSpec::Kind::kWarmupStableDecay:
      return WarmupStableDecay(schedule, step);
    case ScheduleSpec::Kind::kConstant:
      break;
  }
  return schedule.peak;
}

}  // namespace strata::model
