// Dynamic loss scaling (Micikevicius et al., "Mixed Precision Training", ICLR 2018, §3.2) with the
// rule of PyTorch's torch.amp.GradScaler and its defaults.
#ifndef STRATA_MODEL_OPTIMIZER_LOSS_SCALE_H_
#define STRATA_MODEL_OPTIMIZER_LOSS_SCALE_H_

#include <cstdint>
#include <limits>

namespace strata::model {

struct LossScale {
  double value = 65536;
  int64_t good_steps = 0;  // in a row, since value last changed
  int64_t growth_interval = 2000;

  // After a step: halved when gradients were not finite (the update was not applied), doubled after
  // growth_interval good steps in a row, as long as that is a float.
  void Update(bool applied) {
    if (!applied) {
      value *= 0.5;
      good_steps = 0;
    } else if (++good_steps == growth_interval) {
      if (value * 2 <= std::numeric_limits<float>::max()) value *= 2;
      good_steps = 0;
    }
  }
};

}  // namespace strata::model

#endif  // STRATA_MODEL_OPTIMIZER_LOSS_SCALE_H_
