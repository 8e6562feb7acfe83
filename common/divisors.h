// Divisors of a number.
#ifndef STRATA_COMMON_DIVISORS_H_
#define STRATA_COMMON_DIVISORS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace strata::common {

// Ascending; of a positive number.
inline std::vector<int64_t> DivisorsOf(int64_t n) {
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    divisors.push_back(d);
    if (d * d != n) divisors.push_back(n / d);
  }
  std::sort(divisors.begin(), divisors.end());
  return divisors;
}

}  // namespace strata::common

#endif  // STRATA_COMMON_DIVISORS_H_
