// Packing of matrix blocks into the panels that the micro kernel reads: six rows of a, or
// kTileColumns columns of b, side by side for each k, in f32. Ragged panels are filled up with
// zeros. T is float, BFloat16 or Float16.
#ifndef STRATA_KERNELS_CPU_PACKING_H_
#define STRATA_KERNELS_CPU_PACKING_H_

#include <cstdint>

#include "kernels/cpu/target.h"

namespace strata::kernels::STRATA_ISA {

// Packs op(a)[rows, k] into ceil(rows / 6) panels [k][6]. `from` is its first element; stored rows
// are `ld` apart, of length k, or, when transposed, of length `rows`.
template <typename T>
void PackA(int64_t rows, int64_t k, const T* from, int64_t ld, bool transposed, float* to);

// Packs op(b)[k, columns] into panels [k][kTileColumns], likewise.
template <typename T>
void PackB(int64_t columns, int64_t k, const T* from, int64_t ld, bool transposed, float* to);

}  // namespace strata::kernels::STRATA_ISA

#endif  // STRATA_KERNELS_CPU_PACKING_H_
