// The scalar block: what varies from step to step. One slot of kScalarCount doubles in the order
// below; kernels read them from there and predicates test them there.
#ifndef STRATA_PROGRAM_IR_SCALARS_H_
#define STRATA_PROGRAM_IR_SCALARS_H_

#include <cstdint>

namespace strata::program {

enum class Scalar : uint8_t {
  // Written by the host before the step.
  kStep,     // 1-based
  kApplied,  // updates applied before this step
  kLearningRate,
  kInverseTokens,  // 1 / trained tokens of the whole global batch; times kLossScale, if any
  kPosition,       // decode: tokens already in the cache
  kValidTokens,    // decode: how many of the chunk's rows are real
  // Written by the program.
  kLoss,
  kGradientNorm,  // before clipping
  kClipFactor,    // what updates multiply gradients by; over kLossScale, if any
  kApply,         // 1: the update is applied; 0: the gradient was not finite
  kClipped,       // 1: the norm is more than it may be
  // Written by the host where the plan scales losses.
  kLossScale,
};
inline constexpr int kScalarCount = 16;  // room to grow without changing plans
inline constexpr int64_t kScalarBytes = kScalarCount * 8;

constexpr int64_t ScalarOffset(Scalar scalar) { return static_cast<int64_t>(scalar) * 8; }
const char* Name(Scalar);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_IR_SCALARS_H_
