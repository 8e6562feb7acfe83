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
// documents and windows the pairs of the same rows come first: the only ones in which every row
// sees a key.
template <typename Body>
void ForPairs(const AttentionPartShape& shape, const Body& body) {
  const bool limited = shape.positions != nullptr || shape.held.scores.window > 0;
  const auto visit = [&](bool own, bool others) {
    for (size_t k = 0; k < shape.keys.size(); ++k) {
      for (size_t q = 0; q < shape.queries.size(); ++q) {
        if (!Sees(shape.queries[q], shape.keys[k])) continue;
        if (IsOwn(shape.queries[q], shape.keys[k]) ? own : others) body(q, k);
      }
    }
  };
  if (limited) visit(true, false);
  visit(!limited, true);
}

Sight SightOf(const AttentionPartShape& shape, const RowSpan& query, const RowSpan& key) {
  return {.positions = shape.positions == nullptr ? nullptr : shape.positions + query.first,
          .batch = shape.held.sequence,
          .window = shape.held.scores.window,
          .lag = query.position - key.position};
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

template <typename T>
int64_t AttentionPartBackwardWorkspaceBytes(const AttentionShape& held, int threads) {
  return AttentionBackwardFloatsPerThread<T>(held, held.sequence) * threads *
         static_cast<int64_t>(sizeof(float));
}

template <typename T>
void AttentionPartForward(const Context& context, const AttentionPartShape& shape, const T* qkv,
                          const T* kv, bool first, T* out, float* lse, void* workspace) {
  const AttentionShape& held = shape.held;
  const Strides row(held);
  Marks resumes(!first);
  ForPairs(shape, [&](size_t q, size_t k) {
    const RowSpan &query = shape.queries[q], &key = shape.keys[k];
    const T* keys = kv + key.first * row.kv;
    RunAttentionForward<T>(context,
                           {.batch = held.batch,
                            .rows = query.count,
                            .offset = OffsetOf(query, key),
                            .keys = key.count,
                            .heads = held.heads,
                            .kv_heads = held.kv_heads,
                            .head_size = held.head_size,
                            .scores = held.scores,
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
                            .sight = SightOf(shape, query, key)},
                           static_cast<float*>(workspace));
    resumes.Set(q);
  });
}

template <typename T>
void AttentionPartBackward(const Context& context, const AttentionPartShape& shape, const T* dout,
                           const T* qkv, const T* kv, const float* lse, const float* delta,
                           bool first, T* dqkv, T* dkv, void* workspace) {
  const AttentionShape& held = shape.held;
  const Strides row(held);
  const int64_t values = held.kv_heads * held.head_size;
  Marks adds_dq(!first), adds_dkv(false);
  ForPairs(shape, [&](size_t q, size_t k) {
    const RowSpan &query = shape.queries[q], &key = shape.keys[k];
    const T* keys = kv + key.first * row.kv;
    T* dkeys = dkv + key.first * row.kv;
    RunAttentionBackward<T>(context,
                            {.batch = held.batch,
                             .rows = query.count,
                             .offset = OffsetOf(query, key),
                             .keys = key.count,
                             .heads = held.heads,
                             .kv_heads = held.kv_heads,
                             .head_size = held.head_size,
                             .scores = held.scores,
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
                             .sight = SightOf(shape, query, key)},
                            static_cast<float*>(workspace));
    adds_dq.Set(q);
    adds_dkv.Set(k);
  });
  for (size_t k = 0; k < shape.keys.size(); ++k) {
    if (adds_dkv[k]) continue;
    T* dkeys = dkv + shape.keys[k].first * row.kv;
    for (int64_t b = 0; b < held.batch; ++b) {
      std::fill_n(dkeys + b * held.sequence * row.kv, shape.keys[k].count * row.kv, T{});
    }
  }
}

#define STRATA_INSTANTIATE(T)                                                                   \
  template int64_t AttentionPartBackwardWorkspaceBytes<T>(const AttentionShape&, int);          \
  template void AttentionPartForward(const Context&, const AttentionPartShape&, const T*,       \
                                     const T*, bool, T*, float*, void*);                        \
  template void AttentionPartBackward(const Context&, const AttentionPartShape&, const T*,      \
                                      const T*, const T*, const float*, const float*, bool, T*, \
                                      T*, void*);
STRATA_INSTANTIATE(float)
STRATA_INSTANTIATE(BFloat16)
STRATA_INSTANTIATE(Float16)
#undef STRATA_INSTANTIATE

}  // namespace strata::kernels
