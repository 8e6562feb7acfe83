// The longest sequence, the largest micro-batch, the deepest model or the fewest devices that fit.
#ifndef STRATA_PLANNER_FIT_LARGEST_H_
#define STRATA_PLANNER_FIT_LARGEST_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "planner/fit/verdict.h"

namespace strata::planner {

enum class Quantity : uint8_t { kSequence, kMicroBatch, kLayers, kDevices };

struct Largest {
  bool found = false;  // false: not even the least fits
  // Tokens, sequences, layers, or devices; of kDevices the fewest. Where nothing fits, the least
  // that was tried (of devices the most).
  int64_t value = 0;
  int64_t step = 1;    // values are multiples of it
  FitRequest request;  // with the value
  Fit fit;
  // Why not one step further (of kDevices: fewer): what would hold how many bytes, or a rule.
  std::string bound;
};

// Errors of ReadFit where not even the least value is legal. Data-parallel ranks of kDevices share
// everything (zero3) unless the job says how they share; the batch is what the passes need.
absl::StatusOr<Largest> FindLargest(const FitRequest& request, Quantity quantity);

// The same job with another value, its batch and lists of layers fitted to it.
FitRequest With(const FitRequest& request, Quantity quantity, int64_t value);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_FIT_LARGEST_H_
