#include "planner/performance/shape.h"

namespace strata::planner {

const char* NameOf(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return "fp32";
    case Precision::kHalf:
      return "bf16";
    case Precision::kFp8:
      return "fp8";
    case Precision::kMxfp8:
      return "mxfp8";
    case Precision::kNvfp4:
      return "nvfp4";
  }
  return "";
}

SavedValues SavedBy(Recompute recompute, SavedValues listed) {
  if (recompute == Recompute::kListed) return listed;
  if (recompute == Recompute::kFull) return kNoValues;
  return recompute == Recompute::kSelective ? kValuesWithoutAttention : kUsualValues;
}

Recompute ModeOf(SavedValues saved) {
  for (const Recompute mode : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    if (SavedBy(mode, {}) == saved) return mode;
  }
  return Recompute::kListed;
}

double FlopsPerToken(const TrainingShape& shape, bool causal) {
  const double hidden = static_cast<double>(shape.hidden);
  const double query = static_cast<double>(shape.heads * shape.head_dim);
  const double keys = static_cast<double>(shape.kv_heads * shape.head_dim);
  const double ffn = shape.experts > 0
                         ? static_cast<double>(shape.expert_ffn * shape.experts_per_token)
                         : static_cast<double>(shape.ffn);
  const double matrices = shape.gated ? 3 : 2;
  const double products =
      hidden * (2 * query + 2 * keys) + matrices * hidden * ffn + hidden * shape.experts;
  const double attention =
      2 * static_cast<double>(shape.sequence_length) * query * (causal ? 0.5 : 1);
  const double forward = 2 * (static_cast<double>(shape.layers) * (products + attention) +
                              hidden * static_cast<double>(shape.vocab));
  return 3 * forward;
}

}  // namespace strata::planner
