#include "worker/engine/finish_step.h"

#include <algorithm>
#include <cmath>

#include "program/ir/scalars.h"

namespace strata::worker {

using program::Scalar;

namespace {

// The tree over at(0) … at(count - 1).
template <typename At>
double SumOf(const At& at, int64_t begin, int64_t count) {
  if (count <= 0) return 0;
  if (count == 1) return at(begin);
  int64_t left = 1;  // the largest power of two below count: what bottom-up pairing puts together
  while (left * 2 < count) left *= 2;
  return SumOf(at, begin, left) + SumOf(at, begin + left, count - left);
}

}  // namespace

double TreeSum(const double* values, int64_t count, int64_t stride) {
  return SumOf([&](int64_t i) { return values[i * stride]; }, 0, count);
}

void FinishStep(const ops::FinishStep& shape, const double* losses, const double* norms,
                const double* read, double* written) {
  const auto at = [written](Scalar scalar) -> double& { return written[static_cast<int>(scalar)]; };
  const double inverse_tokens = read[static_cast<int>(Scalar::kInverseTokens)];
  const double scale = shape.scaled ? read[static_cast<int>(Scalar::kLossScale)] : 1;
  const int64_t per_rank = shape.rows / shape.data, together = shape.together;
  const auto loss_of_leaf = [&](int64_t leaf) {
    const int64_t replica = leaf / (per_rank * together), inside = leaf % (per_rank * together);
    const int64_t rank = replica * together + inside % together;
    return losses[rank * per_rank + inside / together];
  };
  const double loss = SumOf(loss_of_leaf, 0, shape.rows) * inverse_tokens / scale;
  at(Scalar::kLoss) = loss;
  if (shape.sets == 0) return;
  const int64_t ranges = shape.rows / shape.norm_ranks;
  double squares = 0;
  for (int64_t set = 0; set < shape.sets; ++set) {
    squares += SumOf(
        [&](int64_t range) {
          return norms[(range / ranges * shape.sets + set) * ranges + range % ranges];
        },
        0, shape.rows);
  }
  const double norm = std::sqrt(squares) / scale;
  at(Scalar::kGradientNorm) = norm;
  const double clip = shape.clip > 0 ? std::min(1.0, shape.clip / (norm + 1e-6)) : 1.0;
  at(Scalar::kClipFactor) = clip / scale;
  at(Scalar::kClipped) = clip < 1 ? 1.0 : 0.0;
  at(Scalar::kApply) = std::isfinite(loss) && std::isfinite(norm) ? 1.0 : 0.0;
}

}  // namespace strata::worker
