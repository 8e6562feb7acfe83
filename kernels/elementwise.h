// Operations on flat ranges of elements.
#ifndef STRATA_KERNELS_ELEMENTWISE_H_
#define STRATA_KERNELS_ELEMENTWISE_H_

#include <cstdint>

#include "kernels/context.h"

namespace strata::kernels {

// dst += src.
void Add(const Context& context, int64_t count, const float* src, float* dst);
// dst = src.
void Copy(const Context& context, int64_t count, const float* src, float* dst);
// dst = value.
void Fill(const Context& context, int64_t count, float value, float* dst);
// dst = 0.
void Zero(const Context& context, int64_t count, float* dst);
// Equal blocks of rows, in strides of elements: `width` of row r of block b lie at b · block + r ·
// row.
struct BlockMove {
  int64_t blocks = 1, rows = 0, width = 0;
  int64_t from_block = 0, from_row = 0, to_block = 0, to_row = 0;
};
// to = from, or with `adds` to += from, block after block: several may come from one place, or be
// added to one. Rows of `to` do not overlap within a block.
void MoveBlocks(const Context& context, const BlockMove& move, bool adds, const float* from,
                float* to);
// dst *= factor.
void Scale(const Context& context, int64_t count, float factor, float* dst);

int64_t SumSquaresWorkspaceBytes(int64_t count);

// The sum of squares, in double precision: each block of 4096 elements from the first on is summed
// by itself, then the blocks in ascending order.
double SumSquares(const Context& context, int64_t count, const float* x, void* workspace);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_ELEMENTWISE_H_
