// Sums of several vectors in a fixed order.
#ifndef STRATA_COLLECTIVES_TREE_SUM_H_
#define STRATA_COLLECTIVES_TREE_SUM_H_

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/number_types.h"

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

// The same of numbers of 16 bits (kernels::BFloat16, kernels::Float16): added in float, in the same
// tree, and rounded once. No leaf is written, unless `out` is one; at most kMaxGroupSize leaves.
template <typename T>
void NarrowTreeSum(absl::Span<T* const> leaves, int64_t begin, int64_t end, T* out);

extern template void NarrowTreeSum<kernels::BFloat16>(absl::Span<kernels::BFloat16* const>, int64_t,
                                                      int64_t, kernels::BFloat16*);
extern template void NarrowTreeSum<kernels::Float16>(absl::Span<kernels::Float16* const>, int64_t,
                                                     int64_t, kernels::Float16*);

}  // namespace strata::collectives

#endif  // STRATA_COLLECTIVES_TREE_SUM_H_
