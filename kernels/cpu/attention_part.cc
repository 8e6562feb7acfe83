// Attention over parts: pairs of spans, each a problem of its own. Of a pair the queries see all
// keys or, when both are the same rows, those up to their own.
#include <algorithm>

#include "kernels/attention.h"
#include "kernels/cpu/attention_backward.h"
#include "kernels/cpu/attention_forward.h"

namespace strata::kernels {
namespace {

bool Sees(const RowSpan& query, const RowSpan& key) { return key.position <= query.position; }

// The offset that says how far rows see.
int64_t OffsetOf(const RowSpan& query, const RowSpan& key) {
  return key.position == query.position ? 0 : key.count - 1;
}

struct Strides {
  int64_t q, kv, out;  // of a row
  explicit Strides(const AttentionShape& held)
      : q((held.heads + 2 * held.kv_heads) * held.head_size),
        kv(2 * held.kv_heads * held.head_size),
        out(held.heads * held.head_size) {}
};

}  // namespace

int64_t AttentionPartForwardWorkspaceBytes(const AttentionShape& held, int threads) {
  return AttentionForwardWorkspaceBytes(held, threads);
}

int64_t AttentionPartBackwardWorkspaceBytes(const AttentionShape& held, int threads) {
  return AttentionBackwardFloatsPerThread(held.heads, held.kv_heads, held.head_size) * threads *
         static_cast<int64_t>(sizeof(float));
}

void AttentionPartForward(const Context& context, const AttentionPartShape& shape, const float* qkv,
                          const float* kv, bool first, float* out, float* lse, void* workspace) {
  const AttentionShape& held = shape.held;
  const Strides row(held);
  for (const RowSpan& query : shape.queries) {
    bool resumes = !first;
    for (const RowSpan& key : shape.keys) {
      if (!Sees(query, key)) continue;
      const float* keys = kv + key.first * row.kv;
      RunAttentionForward(context,
                          {.batch = held.batch,
                           .rows = query.count,
                           .offset = OffsetOf(query, key),
                           .keys = key.count,
                           .heads = held.heads,
                           .kv_heads = held.kv_heads,
                           .head_size = held.head_size,
                           .q = qkv + query.first * row.q,
                           .k = keys,
                           .v = keys + held.kv_heads * held.head_size,
                           .q_row = row.q,
                           .q_batch = held.sequence * row.q,
                           .kv_row = row.kv,
                           .kv_batch = held.sequence * row.kv,
                           .out = out + query.first * row.out,
                           .out_batch = held.sequence * row.out,
                           .lse = lse + query.first,
                           .lse_rows = held.sequence,
                           .resumes = resumes},
                          static_cast<float*>(workspace));
      resumes = true;
    }
  }
}

void AttentionPartBackward(const Context& context, const AttentionPartShape& shape,
                           const float* dout, const float* qkv, const float* kv, const float* lse,
                           const float* delta, bool first, float* dqkv, float* dkv,
                           void* workspace) {
  const AttentionShape& held = shape.held;
  const Strides row(held);
  const int64_t values = held.kv_heads * held.head_size;
  std::vector<bool> written(shape.queries.size(), !first);
  for (const RowSpan& key : shape.keys) {
    const float* keys = kv + key.first * row.kv;
    float* dkeys = dkv + key.first * row.kv;
    bool adds_dkv = false;
    for (size_t q = 0; q < shape.queries.size(); ++q) {
      const RowSpan& query = shape.queries[q];
      if (!Sees(query, key)) continue;
      RunAttentionBackward(context,
                           {.batch = held.batch,
                            .rows = query.count,
                            .offset = OffsetOf(query, key),
                            .keys = key.count,
                            .heads = held.heads,
                            .kv_heads = held.kv_heads,
                            .head_size = held.head_size,
                            .q = qkv + query.first * row.q,
                            .k = keys,
                            .v = keys + values,
                            .dq = dqkv + query.first * row.q,
                            .dk = dkeys,
                            .dv = dkeys + values,
                            .q_row = row.q,
                            .q_batch = held.sequence * row.q,
                            .kv_row = row.kv,
                            .kv_batch = held.sequence * row.kv,
                            .dout = dout + query.first * row.out,
                            .out_batch = held.sequence * row.out,
                            .lse = lse + query.first,
                            .delta = delta + query.first,
                            .lse_rows = held.sequence,
                            .adds_dq = written[q],
                            .adds_dkv = adds_dkv},
                           static_cast<float*>(workspace));
      written[q] = adds_dkv = true;
    }
    if (adds_dkv) continue;
    for (int64_t b = 0; b < held.batch; ++b) {
      std::fill_n(dkeys + b * held.sequence * row.kv, key.count * row.kv, 0.0f);
    }
  }
}

}  // namespace strata::kernels
