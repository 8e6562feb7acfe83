// Packing of matrix blocks into the panels that the micro kernel reads: six rows of a, or sixteen
// columns of b, side by side for each k. Ragged panels are filled up with zeros.
#ifndef STRATA_KERNELS_CPU_PACKING_H_
#define STRATA_KERNELS_CPU_PACKING_H_

#include <cstdint>

namespace strata::kernels {

// Packs op(a)[rows, k] into ceil(rows / 6) panels [k][6]. `from` is its first element; stored rows
// are `ld` apart, of length k, or, when transposed, of length `rows`.
void PackA(int64_t rows, int64_t k, const float* from, int64_t ld, bool transposed, float* to);

// Packs op(b)[k, columns] into ceil(columns / 16) panels [k][16], likewise.
void PackB(int64_t columns, int64_t k, const float* from, int64_t ld, bool transposed, float* to);

// to[k, to_ld] = the transpose of from[rows, k] (stored rows from_ld apart), columns [rows,
// round_up(rows, 8)) zero. to_ld >= round_up(rows, 8).
void TransposeBlock(int64_t rows, int64_t k, const float* from, int64_t from_ld, float* to,
                    int64_t to_ld);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_CPU_PACKING_H_
