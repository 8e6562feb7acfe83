// The backward of attention for any strides: over a packed qkv, or over keys and values that come
// in parts.
#ifndef STRATA_KERNELS_CPU_ATTENTION_BACKWARD_H_
#define STRATA_KERNELS_CPU_ATTENTION_BACKWARD_H_

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/context.h"
#include "kernels/cpu/sight.h"

namespace strata::kernels {

template <typename T>
struct AttentionBackwardProblem {
  int64_t batch, rows;   // query rows per sequence; row i sees keys [0, offset + i], at most `keys`
  int64_t offset, keys;  // every key is seen by some row, unless sight is limited
  int64_t heads, kv_heads, head_size;
  ScoreOptions scores;
  // Element d of head h of row r of sequence b: b * batch + r * row + h * D + d; gradients alike.
  const T *q, *k, *v;
  T *dq, *dk, *dv;
  int64_t q_row, q_batch, kv_row, kv_batch;
  const T* dout;  // row r of sequence b: b * out_batch + r * H * D
  int64_t out_batch;
  const float *lse, *delta;  // row r of head h of sequence b: (b * H + h) * lse_rows + r
  int64_t lse_rows;
  // Else written: dq then of rows that all see a key.
  bool adds_dq = false, adds_dkv = false;
  Sight sight;
};

// Of a thread, for at most `rows` query rows per sequence.
template <typename T>
int64_t AttentionBackwardFloatsPerThread(const AttentionShape& shape, int64_t rows);
// By AMX tiles or by lanes, as the forward.
template <typename T>
void RunAttentionBackward(const Context& context, const AttentionBackwardProblem<T>& problem,
                          float* workspace);

template <typename T>
int64_t AttentionBackwardLanesFloats(const AttentionShape& shape, int64_t rows);
template <typename T>
void AttentionBackwardByLanes(const Context& context, const AttentionBackwardProblem<T>& problem,
                              float* workspace);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_CPU_ATTENTION_BACKWARD_H_
