// The learning rate of each step.
#ifndef STRATA_MODEL_OPTIMIZER_SCHEDULE_H_
#define STRATA_MODEL_OPTIMIZER_SCHEDULE_H_

#include <cstdint>

namespace strata::model {

struct ScheduleSpec {
  enum class Kind : uint8_t {
    // Loshchilov and Hutter, "SGDR", ICLR 2017, eq. 5, once, from the end of warm-up to the last
    // step.
    kCosine,
    // Warm-up, stable, then linear decay over the last decay_fraction of the steps (Hu et al.,
    // "MiniCPM", 2024; Hägele et al., "Scaling Laws and Compute-Optimal Training Beyond Fixed
    // Training Durations", 2024, which finds 10–20 % enough).
    kWarmupStableDecay,
    kConstant,  // after warm-up
  };
  Kind kind = Kind::kCosine;
  double peak = 1e-3;
  int64_t steps = 1;            // of the job
  int64_t warmup_steps = 50;    // may exceed steps: then the rate only rises
  double final_fraction = 0.1;  // of the peak, at the last step
  double decay_fraction = 0.2;  // kWarmupStableDecay; never reaches into warm-up
};

// Step `step` counts from 1: peak · step / warmup_steps up to warmup_steps, then as the kind says.
// Steps beyond the last have the last one's rate.
double LearningRate(const ScheduleSpec& schedule, int64_t step);

}  // namespace strata::model

#endif  // STRATA_MODEL_OPTIMIZER_SCHEDULE_H_
