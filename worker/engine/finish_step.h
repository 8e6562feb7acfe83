// The last word of a step: loss, gradient norm, clip factor, and whether the update is applied.
#ifndef STRATA_WORKER_ENGINE_FINISH_STEP_H_
#define STRATA_WORKER_ENGINE_FINISH_STEP_H_

#include <cstdint>

#include "ops/step.h"

namespace strata::worker {

// Sum of values[0], values[stride], … values[(count - 1) · stride] in the fixed tree: leaves are
// paired bottom-up, 2i with 2i + 1, an odd last one passes up unchanged. 0 for count 0.
double TreeSum(const double* values, int64_t count, int64_t stride);

// As ops::FinishStep says. losses[rows]; norms[norm_ranks, sets, rows / norm_ranks], not read
// without sets. Reads kInverseTokens of `read` and writes kLoss, and with sets > 0 also
// kGradientNorm, kClipFactor, kClipped and kApply of `written`; both are scalar blocks, and may be
// the same.
void FinishStep(const ops::FinishStep& shape, const double* losses, const double* norms,
                const double* read, double* written);

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_FINISH_STEP_H_
