// Sums of several vectors in a fixed order.
#ifndef STRATA_COLLECTIVES_TREE_SUM_H_
#define STRATA_COLLECTIVES_TREE_SUM_H_

#include <cstdint>

#include "absl/types/span.h"

namespace strata::collectives {

// out[begin … end) = the sum of leaves[0 … n) there, element by element, added as a tree: 2i with
// 2i+1, bottom-up, an odd last one passing up. T is float or double.
//
// leaves[kept] is only read (unless out is the same memory, which is allowed); the others serve as
// room for partial sums and are lost. `nodes` has room for n pointers.
template <typename T>
void TreeSum(absl::Span<T* const> leaves, int kept, int64_t begin, int64_t end, T* out,
             absl::Span<T*> nodes);

extern template void TreeSum<float>(absl::Span<float* const>, int, int64_t, int64_t, float*,
                                    absl::Span<float*>);
extern template void TreeSum<double>(absl::Span<double* const>, int, int64_t, int64_t, double*,
                                     absl::Span<double*>);

}  // namespace strata::collectives

#endif  // STRATA_COLLECTIVES_TREE_SUM_H_
