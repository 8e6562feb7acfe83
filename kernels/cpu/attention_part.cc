// Attention over parts: pairs of spans, each a problem of its own. Of a pair the queries see all
// keys or, when both are the same rows, those up to their own.
#include <algorithm>
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/cpu/attention_backward.h"
#include "kernels/cpu/attention_forward.h"

namespace strata::kernels {
namespace {

// Which of a few spans something is true of; kernels allocate nothing.
class Marks {
 public:
  explicit Marks(bool all) : bits_(all ? ~uint64_t{0} : 0) {}
  bool operator[](size_t span) const { return (bits_ >> span & 1) != 0; }
  void Set(size_t span) { bits_ |= uint64_t{1} << span; }

 private:
  uint64_t bits_;
};

bool Sees(const RowSpan& query, const RowSpan& key) { return key.position <= query.position; }
bool IsOwn(const RowSpan& query, const RowSpan& key) { return key.position == query.position; }

// Calls body(query, key), indices of spans, for each pair of which rows may see keys, by keys. Of
// documents the pairs of the same rows come first: the only ones in which every row sees a key.
template <typename Body>
void ForPairs(const AttentionPartShape& shape, const Body& body) {
  const bool documents = shape.positions != nullptr;
  const auto visit = [&](bool own, bool others) {
    for (size_t k = 0; k < shape.keys.size(); ++k) {
      for (size_t q = 0; q < shape.queries.size(); ++q) {
        if (!Sees(shape.queries[q], shape.keys[k])) continue;
        if (IsOwn(shape.queries[q], shape.keys[k]) ? own : others) body(q, k);
      }
    }
  };
  if (documents) visit(true, false);
  visit(!documents, true);
}

Documents DocumentsOf(const AttentionPartShape& shape, const RowSpan& query, const RowSpan& key) {
  if (shape.positions == nullptr) return {};
  return {shape.positions + query.first, shape.held.sequence, query.position - key.position};
}

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
  Marks resumes(!first);
  ForPairs(shape, [&](size_t q, size_t k) {
    const RowSpan &query = shape.queries[q], &key = shape.keys[k];
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
                         .resumes = resumes[q],
                         .documents = DocumentsOf(shape, query, key)},
                        static_cast<float*>(workspace));
    resumes.Set(q);
  });
}

void AttentionPartBackward(const Context& context, const AttentionPartShape& shape,
                           const float* dout, const float* qkv, const float* kv, const float* lse,
                           const float* delta, bool first, float* dqkv, float* dkv,
                           void* workspace) {
  const AttentionShape& held = shape.held;
  const Strides row(held);
  const int64_t values = held.kv_heads * held.head_size;
  Marks adds_dq(!first), adds_dkv(false);
  ForPairs(shape, [&](size_t q, size_t k) {
    const RowSpan &query = shape.queries[q], &key = shape.keys[k];
    const float* keys = kv + key.first * row.kv;
    float* dkeys = dkv + key.first * row.kv;
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
                          .adds_dq = adds_dq[q],
                          .adds_dkv = adds_dkv[k],
                          .documents = DocumentsOf(shape, query, key)},
                         static_cast<float*>(workspace));
    adds_dq.Set(q);
    adds_dkv.Set(k);
  });
  for (size_t k = 0; k < shape.keys.size(); ++k) {
    if (adds_dkv[k]) continue;
    float* dkeys = dkv + shape.keys[k].first * row.kv;
    for (int64_t b = 0; b < held.batch; ++b) {
      std::fill_n(dkeys + b * held.sequence * row.kv, shape.keys[k].count * row.kv, 0.0f);
    }
  }
}

}  // namespace strata::kernels
