// Attention inside documents that share a sequence.
#ifndef STRATA_KERNELS_CPU_DOCUMENTS_H_
#define STRATA_KERNELS_CPU_DOCUMENTS_H_

#include <algorithm>
#include <cstdint>

namespace strata::kernels {

// Where documents begin, for query rows that see nothing before their own.
struct Documents {
  const int32_t* positions = nullptr;  // of a row inside its document; null: there are none
  int64_t batch = 0;                   // elements from one sequence to the next
  int64_t lag = 0;                     // from the place of the first key to that of the first row

  // The first key that a row sees; keys may end before it.
  int64_t FirstKey(int64_t sequence, int64_t row) const {
    if (positions == nullptr) return 0;
    return std::max<int64_t>(0, lag + row - positions[sequence * batch + row]);
  }
  // The first that any of rows [begin, end) does.
  int64_t FirstKey(int64_t sequence, int64_t begin, int64_t end) const {
    int64_t first = FirstKey(sequence, begin);
    if (positions == nullptr) return first;
    for (int64_t row = begin + 1; row < end; ++row) {
      first = std::min(first, FirstKey(sequence, row));
    }
    return first;
  }
};

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_CPU_DOCUMENTS_H_
