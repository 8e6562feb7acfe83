// The forward of attention for any strides: over a packed qkv, over a cache, or over keys and
// values that come in parts.
#ifndef STRATA_KERNELS_CPU_ATTENTION_FORWARD_H_
#define STRATA_KERNELS_CPU_ATTENTION_FORWARD_H_

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/context.h"
#include "kernels/cpu/sight.h"

namespace strata::kernels {

template <typename T>
struct AttentionProblem {
  int64_t batch, rows;  // query rows per sequence; row i sees keys [0, offset + i], at most `keys`
  int64_t offset, keys;
  int64_t heads, kv_heads, head_size;
  ScoreOptions scores;
  const T *q, *k,
      *v;  // element d of head h of row r of sequence b: b * batch + r * row + h * D + d
  int64_t q_row, q_batch, kv_row, kv_batch;
  T* out;  // row r of sequence b: b * out_batch + r * H * D
  int64_t out_batch;
  float* lse;  // row r of head h of sequence b: (b * H + h) * lse_rows + r; or null
  int64_t lse_rows;
  // out and lse hold what other keys gave: an online softmax whose maximum is lse and whose sum is
  // 1 goes on.
  bool resumes = false;
  Sight sight;
};

// By AMX tiles where these work and rows fill some, else by lanes.
int64_t AttentionForwardFloatsPerThread(int64_t heads, int64_t kv_heads, int64_t head_size);
template <typename T>
void RunAttentionForward(const Context& context, const AttentionProblem<T>& problem,
                         float* workspace);

int64_t AttentionForwardLanesFloats(int64_t heads, int64_t kv_heads, int64_t head_size);
template <typename T>
void AttentionForwardByLanes(const Context& context, const AttentionProblem<T>& problem,
                             float* workspace);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_CPU_ATTENTION_FORWARD_H_
