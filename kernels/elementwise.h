// Operations on flat ranges of elements.
#ifndef STRATA_KERNELS_ELEMENTWISE_H_
#define STRATA_KERNELS_ELEMENTWISE_H_

#include <cstdint>

#include "kernels/context.h"
#include "kernels/number_types.h"

namespace strata::kernels {

// dst += src.
template <typename T>
void Add(const Context& context, int64_t count, const T* src, T* dst);
// dst = src.
template <typename T>
void Copy(const Context& context, int64_t count, const T* src, T* dst);
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
template <typename T>
void MoveBlocks(const Context& context, const BlockMove& move, bool adds, const T* from, T* to);
// dst *= factor.
template <typename T>
void Scale(const Context& context, int64_t count, float factor, T* dst);
// x = cap * tanh(x / cap) (Gemma Team, "Gemma 2", 2024, section 2).
template <typename T>
void Softcap(const Context& context, int64_t count, float cap, T* x);

int64_t SumSquaresWorkspaceBytes(int64_t count);

// The sum of squares, in double precision: each block of 4096 elements from the first on is summed
// by itself, then the blocks in ascending order.
template <typename T>
double SumSquares(const Context& context, int64_t count, const T* x, void* workspace);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_ELEMENTWISE_H_
