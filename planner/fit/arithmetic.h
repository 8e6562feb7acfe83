// The report's numbers as products that a reader can check by hand.
#ifndef STRATA_PLANNER_FIT_ARITHMETIC_H_
#define STRATA_PLANNER_FIT_ARITHMETIC_H_

#include <string>
#include <vector>

#include "planner/fit/memory_of_job.h"

namespace strata::planner {

struct Product {
  ByteClass klass = ByteClass::kParameters;
  std::string factors;  // "8.03 B parameters × 2 B / 8 (zero3)"
  double bytes = 0;     // what they come to
  double held = 0;      // what the worst rank has in all tiers, at the moment that is fullest
};

// Of the worst rank. What differs from `held` is alignment, bytes that are present for a while only
// (gradients, gathered weights), and parts of the model that are cut unevenly.
std::vector<Product> ArithmeticOf(const FitRequest& request, const MemoryOfJob& memory);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_FIT_ARITHMETIC_H_
