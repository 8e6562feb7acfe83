#include "worker/engine/finish_step.h"

#include <algorithm>
#include <cmath>

#include "program/ir/scalars.h"

namespace strata::worker {

using program::Scalar;

double TreeSum(const double* values, int64_t count, int64_t stride) {
  if (count <= 0) return 0;
  if (count == 1) return values[0];
  int64_t left = 1;  // the largest power of two below count: what bottom-up pairing puts together
  while (left * 2 < count) left *= 2;
  return TreeSum(values, left, stride) + TreeSum(values + left * stride, count - left, stride);
}

void FinishStep(const double* leaves, int64_t virtual_shards, int64_t sets, double clip,
                const double* read, double* written) {
  const auto at = [written](Scalar scalar) -> double& { return written[static_cast<int>(scalar)]; };
  const int64_t stride = 1 + sets;
  const double inverse_tokens = read[static_cast<int>(Scalar::kInverseTokens)];
  const double loss = TreeSum(leaves, virtual_shards, stride) * inverse_tokens;
  at(Scalar::kLoss) = loss;
  if (sets == 0) return;
  double squares = 0;
  for (int64_t s = 0; s < sets; ++s) squares += TreeSum(leaves + 1 + s, virtual_shards, stride);
  const double norm = std::sqrt(squares);
  at(Scalar::kGradientNorm) = norm;
  at(Scalar::kClipFactor) = clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
  at(Scalar::kClipped) = at(Scalar::kClipFactor) < 1 ? 1.0 : 0.0;
  at(Scalar::kApply) = std::isfinite(loss) && std::isfinite(norm) ? 1.0 : 0.0;
}

}  // namespace strata::worker
