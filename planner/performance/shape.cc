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

}  // namespace strata::planner
