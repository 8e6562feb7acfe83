#include <cstring>

#include "kernels/attention.h"
#include "kernels/cpu/attention_forward.h"
#include "kernels/cpu/parallel.h"

namespace strata::kernels {

template <typename T>
void AppendToCache(const Context& context, const DecodeShape& shape, const T* qkv, T* k_cache,
                   T* v_cache) {
  const int64_t columns = shape.kv_heads * shape.head_size;
  const int64_t q_columns = shape.heads * shape.head_size;
  const int64_t count = shape.batch * shape.rows;
  ForBlocks(context, count, RowsPerTask(2 * columns), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t sequence = i / shape.rows, row = i % shape.rows;
      const T* from = qkv + i * (q_columns + 2 * columns) + q_columns;
      const int64_t to = (sequence * shape.context + shape.position + row) * columns;
      std::memcpy(k_cache + to, from, columns * sizeof(T));
      std::memcpy(v_cache + to, from + columns, columns * sizeof(T));
    }
  });
}

int64_t DecodeAttentionWorkspaceBytes(const DecodeShape& shape, int threads) {
  return AttentionForwardFloatsPerThread(shape.heads, shape.kv_heads, shape.head_size) * threads *
         static_cast<int64_t>(sizeof(float));
}

template <typename T>
void DecodeAttention(const Context& context, const DecodeShape& shape, const T* qkv,
                     const T* k_cache, const T* v_cache, T* out, void* workspace) {
  const int64_t q_row = (shape.heads + 2 * shape.kv_heads) * shape.head_size;
  const int64_t kv_row = shape.kv_heads * shape.head_size;
  const AttentionProblem<T> problem = {
      .batch = shape.batch,
      .rows = shape.rows,
      .offset = shape.position,
      .keys = shape.position + shape.rows,
      .heads = shape.heads,
      .kv_heads = shape.kv_heads,
      .head_size = shape.head_size,
      .scores = shape.scores,
      .q = qkv,
      .k = k_cache,
      .v = v_cache,
      .q_row = q_row,
      .q_batch = shape.rows * q_row,
      .kv_row = kv_row,
      .kv_batch = shape.context * kv_row,
      .out = out,
      .out_batch = shape.rows * shape.heads * shape.head_size,
      .lse = nullptr,
      .lse_rows = 0,
      .sight = {.window = shape.scores.window, .lag = shape.position}};
  RunAttentionForward(context, problem, static_cast<float*>(workspace));
}

#define STRATA_INSTANTIATE(T)                                                                     \
  template void AppendToCache(const Context&, const DecodeShape&, const T*, T*, T*);              \
  template void DecodeAttention(const Context&, const DecodeShape&, const T*, const T*, const T*, \
                                T*, void*);
STRATA_INSTANTIATE(float)
STRATA_INSTANTIATE(BFloat16)
STRATA_INSTANTIATE(Float16)
#undef STRATA_INSTANTIATE

}  // namespace strata::kernels
