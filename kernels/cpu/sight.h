// Which keys the rows of attention see before their own.
#ifndef STRATA_KERNELS_CPU_SIGHT_H_
#define STRATA_KERNELS_CPU_SIGHT_H_

#include <algorithm>
#include <cstdint>

namespace strata::kernels {

// Rows see nothing before their document, nor before the last `window` rows up to their own.
struct Sight {
  const int32_t* positions = nullptr;  // of a row inside its document; null: there are none
  int64_t batch = 0;                   // positions from one sequence to the next
  int64_t window = 0;                  // 0: all
  int64_t lag = 0;                     // from the place of the first key to that of the first row

  bool limited() const { return positions != nullptr || window > 0; }
  // The first key that a row sees, at least 0; keys may end before it.
  int64_t FirstKey(int64_t sequence, int64_t row) const {
    int64_t first = 0;
    if (positions != nullptr) {
      first = std::max(first, lag + row - positions[sequence * batch + row]);
    }
    if (window > 0) first = std::max(first, lag + row - window + 1);
    return first;
  }
  // The first that any of rows [begin, end) does.
  int64_t FirstKey(int64_t sequence, int64_t begin, int64_t end) const {
    int64_t first = FirstKey(sequence, begin);
    if (positions == nullptr) return first;  // later rows see later keys
    for (int64_t row = begin + 1; row < end; ++row) {
      first = std::min(first, FirstKey(sequence, row));
    }
    return first;
  }
};

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_CPU_SIGHT_H_
