// The forward of attention for any strides: over a packed qkv, or over a cache.
#ifndef STRATA_KERNELS_CPU_ATTENTION_FORWARD_H_
#define STRATA_KERNELS_CPU_ATTENTION_FORWARD_H_

#include <cstdint>

#include "kernels/context.h"

namespace strata::kernels {

struct AttentionProblem {
  int64_t batch, rows;  // query rows per sequence; row i stands at position offset + i
  int64_t offset;       // keys and values reach from position 0 to offset + rows
  int64_t heads, kv_heads, head_size;
  const float *q, *k,
      *v;  // element d of head h of row r of sequence b: b * batch + r * row + h * D + d
  int64_t q_row, q_batch, kv_row, kv_batch;
  float* out;  // [B, rows, H * D]
  float* lse;  // [B, H, rows] or null
};

int64_t AttentionForwardFloatsPerThread(int64_t heads, int64_t kv_heads, int64_t head_size);
void RunAttentionForward(const Context& context, const AttentionProblem& problem, float* workspace);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_CPU_ATTENTION_FORWARD_H_
