#include "kernels/reference/elementwise.h"

namespace strata::kernels::reference {

Doubles Add(const Doubles& dst, const Doubles& src) {
  Doubles sum = dst;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += src[i];
  return sum;
}

double SumSquares(const Doubles& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return sum;
}

}  // namespace strata::kernels::reference
