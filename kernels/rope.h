// Rotary position embedding (Su et al., "RoFormer", 2021, eq. 34) in the half-split convention of
// Llama checkpoints in Hugging Face's layout: of the R elements that turn, i with i + R/2.
#ifndef STRATA_KERNELS_ROPE_H_
#define STRATA_KERNELS_ROPE_H_

#include <cstdint>

#include "kernels/context.h"
#include "kernels/number_types.h"

namespace strata::kernels {

// table[count, R]: for each position from `first` on the cosines of its R/2 angles, then their
// sines. Angle i of position p is p * theta^(-2i/R), computed in double precision. R is even.
void BuildRopeTable(int64_t first, int64_t count, int64_t rotary, double theta, float* table);

struct RopeShape {
  int64_t rows = 0;      // N
  int64_t sequence = 0;  // T
  int64_t heads = 0, kv_heads = 0, head_size = 0;
  int64_t start = 0;   // row n stands at position start + n % T, which must lie in the table
  int64_t rotary = 0;  // the first elements of a head, which turn; 0: all

  int64_t width() const { return rotary == 0 ? head_size : rotary; }  // R
};

// Turns the query and key heads of qkv[N, (H + 2K) * D] in place; values stay. `inverse` turns
// back, which is also the gradient. table[positions, R]; `positions` [N]: where each row stands
// instead, in the table; null: as the shape says.
template <typename T>
void RopeApply(const Context& context, const RopeShape& shape, const float* table,
               const int32_t* positions, bool inverse, T* qkv);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_ROPE_H_
