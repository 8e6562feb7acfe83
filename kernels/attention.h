// Causal grouped-query attention, softmax(q k^T / sqrt(D)) v, without a T x T matrix: tiles with a
// running maximum and sum (Dao et al., "FlashAttention", NeurIPS 2022, algorithms 1 and 4; Dao,
// "FlashAttention-2", 2023, for the backward with the log-sum-exp). Query head h reads key/value
// head h / (H / K).
#ifndef STRATA_KERNELS_ATTENTION_H_
#define STRATA_KERNELS_ATTENTION_H_

#include <cstdint>
#include <vector>

#include "kernels/context.h"
#include "kernels/number_types.h"

namespace strata::kernels {

// What families change about scores, q k^T / sqrt(D) of all rows up to a row's own.
struct ScoreOptions {
  int64_t window = 0;  // a row sees the last `window` rows up to its own; 0: all
  float softcap = 0;   // a score becomes softcap * tanh(score / softcap); 0: it stays
  float scale = 0;     // of q k^T; 0: 1 / sqrt(D)
};

struct AttentionShape {
  int64_t batch = 0, sequence = 0;
  int64_t heads = 0, kv_heads = 0, head_size = 0;  // kv_heads divides heads
  ScoreOptions scores = {};
};

// T is float, BFloat16 or Float16: what is read becomes float, sums are float, and what is written
// is rounded once. On CPUs whose AMX works, BFloat16 is multiplied as it is: probabilities and
// gradients of scores are rounded to it for that.

// `positions` of the kernels that have it: a row's place inside its document, at least 0, for rows
// that several documents share; row t of a sequence then sees rows [t - positions[t], t] of it.
// Null: all up to its own.

int64_t AttentionForwardWorkspaceBytes(const AttentionShape& shape, int threads);

// qkv[N, (H + 2K) * D], query heads first, then key heads, then value heads -> out[N, H * D] and
// lse[B, H, T], the logarithm of each row's sum of exponentials. positions[B, T].
template <typename T>
void AttentionForward(const Context& context, const AttentionShape& shape, const T* qkv,
                      const int32_t* positions, T* out, float* lse, void* workspace);

template <typename T>
int64_t AttentionBackwardWorkspaceBytes(const AttentionShape& shape, int threads);

// dqkv[N, (H + 2K) * D] is written (not accumulated) from dout[N, H * D] and what forward saw and
// made.
template <typename T>
void AttentionBackward(const Context& context, const AttentionShape& shape, const T* dout,
                       const T* qkv, const T* out, const float* lse, const int32_t* positions,
                       T* dqkv, void* workspace);

// delta[B, H, T] = sum over d of dout * out, which the backward of a row needs of it (Dao 2023,
// algorithm 2).
template <typename T>
void AttentionDelta(const Context& context, const AttentionShape& shape, const T* dout,
                    const T* out, float* delta);

// Attention where keys and values come in parts, each with other rows of the sequences than the
// queries (Liu, Zaharia, Abbeel, "Ring Attention", 2023).

// Rows of each sequence that stand together: held from row `first` on, at positions from `position`
// on.
struct RowSpan {
  int64_t first = 0, count = 0, position = 0;
};

struct AttentionPartShape {
  AttentionShape held;  // `sequence`: rows of each sequence, of queries and of keys
  // Of a query and a key span one is wholly before the other, or they are the same rows. At
  // most 64.
  std::vector<RowSpan> queries, keys;
  const int32_t* positions = nullptr;  // [B, T] of the queries' rows
};

// As AttentionForward and AttentionBackward, without delta.
int64_t AttentionPartForwardWorkspaceBytes(const AttentionShape& held, int threads);
template <typename T>
int64_t AttentionPartBackwardWorkspaceBytes(const AttentionShape& held, int threads);

// The queries of qkv[N, (H + 2K) * D] over kv[N, 2K * D], keys before values. `first`: out[N, H *
// D] and lse[B, H, T] are written, and every query sees a key (of documents and with a
// window its own); else they
// hold what other keys gave, and become what all give together.
template <typename T>
void AttentionPartForward(const Context& context, const AttentionPartShape& shape, const T* qkv,
                          const T* kv, bool first, T* out, float* lse, void* workspace);

// The queries' columns of dqkv[N, (H + 2K) * D] are written when `first`, else added to; dkv[N, 2K
// * D] is written, zeros where no query sees a key. lse is that of all keys.
template <typename T>
void AttentionPartBackward(const Context& context, const AttentionPartShape& shape, const T* dout,
                           const T* qkv, const T* kv, const float* lse, const float* delta,
                           bool first, T* dqkv, T* dkv, void* workspace);

// Decoding with a cache of keys and values, each [B, context, K * D].
struct DecodeShape {
  int64_t batch = 0;
  int64_t rows = 0;      // new rows per sequence
  int64_t context = 0;   // capacity of the cache
  int64_t position = 0;  // rows already in the cache; position + rows <= context
  int64_t heads = 0, kv_heads = 0, head_size = 0;
  ScoreOptions scores = {};
};

// Copies the keys and values of qkv[B * rows, (H + 2K) * D] to cache rows [position, position +
// rows).
template <typename T>
void AppendToCache(const Context& context, const DecodeShape& shape, const T* qkv, T* k_cache,
                   T* v_cache);

int64_t DecodeAttentionWorkspaceBytes(const DecodeShape& shape, int threads);

// New row i of each sequence attends to cache rows [0, position + i], its own included (append
// first) -> out[B * rows, H * D].
template <typename T>
void DecodeAttention(const Context& context, const DecodeShape& shape, const T* qkv,
                     const T* k_cache, const T* v_cache, T* out, void* workspace);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_ATTENTION_H_
