#include "kernels/cpu/attention_backward.h"

#include <cmath>
#include <cstring>

#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/packing.h"

namespace strata::kernels {
namespace {

using simd::Vec;

// With this many rows all tiles of a task (about 270 KiB at D = 64) fit a second-level cache.
constexpr int64_t kQueryRows = 96;

struct Scratch {
  float *keys, *keys_transposed;   // [kKeys, Dp], [Dp, kKeys]
  float* values_transposed;        // [Dp, kKeys]
  float *dkeys, *dvalues;          // [kKeys, Dp]
  float *queries, *douts;          // [rows, Dp], queries scaled
  float *probabilities, *dscores;  // [rows, kKeys]
  float* dqueries;                 // [6, Dp]
  int64_t floats;

  Scratch(const QueryTiling& tiling, int64_t padded, float* memory) {
    Carver carver(memory);
    for (float** tile : {&keys, &keys_transposed, &values_transposed, &dkeys, &dvalues}) {
      *tile = carver.Take(kKeys * padded);
    }
    for (float** tile : {&queries, &douts}) *tile = carver.Take(tiling.rows * padded);
    for (float** tile : {&probabilities, &dscores}) *tile = carver.Take(tiling.rows * kKeys);
    dqueries = carver.Take(kTileRows * padded);
    floats = carver.FloatsFrom(memory);
  }
};

// All of one key/value head of one sequence: tiles of keys outside, tiles of queries inside.
class BackwardGroup {
 public:
  BackwardGroup(const AttentionBackwardProblem& problem, int64_t sequence, int64_t kv_head,
                float* memory)
      : problem_(problem),
        tiling_(problem.heads, problem.kv_heads, kQueryRows),
        size_(problem.head_size),
        padded_(PaddedHeadSize(size_)),
        scratch_(tiling_, padded_, memory),
        sequence_(sequence),
        kv_head_(kv_head),
        scale_(1 / std::sqrt(static_cast<float>(size_))) {}

  void Run() {
    for (int64_t key = 0; key < problem_.keys; key += kKeys) {
      const int64_t keys = std::min(kKeys, problem_.keys - key);
      PackKeysAndValues(key, keys);
      const int64_t sees = std::max<int64_t>(0, key - problem_.offset);  // the first row that does
      const int64_t first = sees / tiling_.positions * tiling_.positions;
      for (int64_t row = first; row < problem_.rows; row += tiling_.positions) {
        const int64_t end = std::min(row + tiling_.positions, problem_.rows);
        if (FirstKey(row, end) < key + keys) QueryTile(row, key, keys);
      }
      WriteKeysAndValues(key, keys);
    }
  }

 private:
  // Offsets of an element 0 in q and dq, in k, v, dk and dv, in dout, in lse and delta.
  int64_t QueryAt(int64_t row, int64_t head) const {
    return sequence_ * problem_.q_batch + row * problem_.q_row + head * size_;
  }
  int64_t KeyAt(int64_t key) const {
    return sequence_ * problem_.kv_batch + key * problem_.kv_row + kv_head_ * size_;
  }
  int64_t OutAt(int64_t row, int64_t head) const {
    return sequence_ * problem_.out_batch + (row * problem_.heads + head) * size_;
  }
  int64_t LseAt(int64_t row, int64_t head) const {
    return (sequence_ * problem_.heads + head) * problem_.lse_rows + row;
  }
  int64_t Head(int64_t row) const { return kv_head_ * tiling_.group + row % tiling_.group; }

  void PackKeysAndValues(int64_t key, int64_t keys) {
    if (keys < kKeys) {
      ZeroRow(scratch_.keys_transposed, 0, padded_ * kKeys);
      ZeroRow(scratch_.values_transposed, 0, padded_ * kKeys);
    }
    TransposeBlock(keys, size_, problem_.k + KeyAt(key), problem_.kv_row, scratch_.keys_transposed,
                   kKeys);
    TransposeBlock(keys, size_, problem_.v + KeyAt(key), problem_.kv_row,
                   scratch_.values_transposed, kKeys);
    for (int64_t i = 0; i < keys; ++i) {
      PackRow(size_, padded_, 1.0f, problem_.k + KeyAt(key + i), scratch_.keys + i * padded_);
    }
    ZeroRow(scratch_.dkeys, 0, kKeys * padded_);
    ZeroRow(scratch_.dvalues, 0, kKeys * padded_);
  }

  // to (+)= factor * from.
  void WriteRow(const float* from, float factor, bool adds, float* to) const {
    simd::ForEachVec(size_, [=](int64_t d, auto lanes) {
      Vec value = _mm256_mul_ps(lanes.Load(from + d), simd::Set(factor));
      if (adds) value = _mm256_add_ps(value, lanes.Load(to + d));
      lanes.Store(to + d, value);
    });
  }

  void WriteKeysAndValues(int64_t key, int64_t keys) {
    for (int64_t i = 0; i < keys; ++i) {
      const int64_t at = KeyAt(key + i);
      WriteRow(scratch_.dkeys + i * padded_, 1.0f, problem_.adds_dkv, problem_.dk + at);
      WriteRow(scratch_.dvalues + i * padded_, 1.0f, problem_.adds_dkv, problem_.dv + at);
    }
  }

  // Keys of the tile [key, key + keys) up to which a query row sees.
  int64_t Visible(int64_t row, int64_t key, int64_t keys) const {
    return std::clamp<int64_t>(problem_.offset + row - key + 1, 0, keys);
  }
  // The first key that any of rows [begin, end) sees.
  int64_t FirstKey(int64_t begin, int64_t end) const {
    return problem_.documents.FirstKey(sequence_, begin, end);
  }
  // Of a tile's rows, those from here on see no key up to `key`.
  int64_t RowsThatSee(int64_t rows, int64_t first, int64_t key) const {
    if (problem_.documents.positions == nullptr) return rows;
    int64_t end = first + rows / tiling_.group;
    while (end > first && FirstKey(end - 1, end) > key) --end;
    return (end - first) * tiling_.group;
  }

  void QueryTile(int64_t first, int64_t key, int64_t keys) {
    const int64_t rows = std::min(tiling_.positions, problem_.rows - first) * tiling_.group;
    for (int64_t row = 0; row < RoundUp(rows, kTileRows); ++row) {
      float* query = scratch_.queries + row * padded_;
      float* dout = scratch_.douts + row * padded_;
      if (row >= rows) {
        ZeroRow(query, 0, padded_);
        ZeroRow(dout, 0, padded_);
        continue;
      }
      const int64_t position = first + row / tiling_.group;
      PackRow(size_, padded_, scale_, problem_.q + QueryAt(position, Head(row)), query);
      PackRow(size_, padded_, 1.0f, problem_.dout + OutAt(position, Head(row)), dout);
    }
    for (int64_t row = 0; row < rows; row += kTileRows) QueryPanel(row, rows, first, key, keys);

    // dV += P^T dO and dK += dS^T Q, six keys at a time, over the rows that see any of them.
    for (int64_t k = 0; k < keys; k += kTileRows) {
      const int64_t blind = std::max<int64_t>(0, key + k - problem_.offset - first) * tiling_.group;
      const int64_t start = blind / kTileRows * kTileRows;
      if (start >= rows) break;
      const int64_t seeing = RowsThatSee(rows, first, key + k + kTileRows - 1) - start;
      if (seeing <= 0) continue;
      const int64_t from = start * kKeys + k;
      PanelProduct(padded_, seeing, scratch_.probabilities + from, 1, kKeys,
                   scratch_.douts + start * padded_, padded_, scratch_.dvalues + k * padded_,
                   padded_, true);
      PanelProduct(padded_, seeing, scratch_.dscores + from, 1, kKeys,
                   scratch_.queries + start * padded_, padded_, scratch_.dkeys + k * padded_,
                   padded_, true);
    }
  }

  // Six query rows: P = exp(S - lse), dS = P * (dP - delta), dQ += dS K.
  void QueryPanel(int64_t row, int64_t rows, int64_t first, int64_t key, int64_t keys) {
    const int64_t end = std::min(row + kTileRows, rows);
    Prefetch(row, end, first);
    const int64_t seen = Visible(first + (end - 1) / tiling_.group, key, keys);
    if (seen == 0) return;
    const int64_t first_key =
        FirstKey(first + row / tiling_.group, first + (end - 1) / tiling_.group + 1);
    float* p = scratch_.probabilities + row * kKeys;
    float* ds = scratch_.dscores + row * kKeys;
    if (first_key >= key + seen) {
      // The tile's other rows see some: products over six keys read these too.
      ZeroRow(p, 0, kTileRows * kKeys);
      ZeroRow(ds, 0, kTileRows * kKeys);
      return;
    }
    // From here on, in whole micro kernels.
    const int64_t from = std::max<int64_t>(0, first_key - key) / kTileColumns * kTileColumns;
    PanelProduct(seen - from, size_, scratch_.queries + row * padded_, padded_, 1,
                 scratch_.keys_transposed + from, kKeys, p + from, kKeys, false);
    PanelProduct(seen - from, size_, scratch_.douts + row * padded_, padded_, 1,
                 scratch_.values_transposed + from, kKeys, ds + from, kKeys, false);
    ScorePanel(row, rows, first, key, seen);
    PanelProduct(padded_, seen - from, scratch_.dscores + row * kKeys + from, kKeys, 1,
                 scratch_.keys + from * padded_, padded_, scratch_.dqueries, padded_, false);
    for (int64_t i = row; i < end; ++i) {
      WriteRow(scratch_.dqueries + (i - row) * padded_, scale_, key > first_key || problem_.adds_dq,
               problem_.dq + QueryAt(first + i / tiling_.group, Head(i)));
    }
  }

  // Scores of the six rows become probabilities, what came by the values their gradients; zeros
  // where a row does not see.
  void ScorePanel(int64_t row, int64_t rows, int64_t first, int64_t key, int64_t seen) {
    float* p = scratch_.probabilities + row * kKeys;
    float* ds = scratch_.dscores + row * kKeys;
    // Products over six keys read up to five columns past the last seen one.
    const int64_t zero_end = std::min(kKeys, seen + kTileRows);
    for (int64_t i = row; i < row + kTileRows; ++i, p += kKeys, ds += kKeys) {
      const int64_t position = first + i / tiling_.group;
      const int64_t valid = i < rows ? Visible(position, key, seen) : 0;
      const int64_t begin =
          valid > 0 ? std::clamp<int64_t>(FirstKey(position, position + 1) - key, 0, valid) : 0;
      if (valid > begin) {
        ScoreRow(valid - begin, LseAt(position, Head(i)), p + begin, ds + begin);
      }
      ZeroRow(p, 0, begin);
      ZeroRow(ds, 0, begin);
      ZeroRow(p, valid, zero_end);
      ZeroRow(ds, valid, zero_end);
    }
  }

  // The rows of dQ that this panel adds to, and the same rows of the next query tile.
  void Prefetch(int64_t row, int64_t end, int64_t first) const {
    for (int64_t i = row; i < end; ++i) {
      const int64_t position = first + i / tiling_.group, head = Head(i);
      PrefetchRow(size_, problem_.dq + QueryAt(position, head));
      const int64_t next = position + tiling_.positions;
      if (next >= problem_.rows) continue;
      PrefetchRow(size_, problem_.q + QueryAt(next, head));
      PrefetchRow(size_, problem_.dout + OutAt(next, head));
    }
  }

  void ScoreRow(int64_t valid, int64_t at, float* p, float* ds) const {
    const Vec lse = simd::Set(problem_.lse[at]), delta = simd::Set(problem_.delta[at]);
    simd::ForEachVec(valid, [=](int64_t j, auto lanes) {
      const Vec probability = simd::Exp(_mm256_sub_ps(lanes.Load(p + j), lse));
      lanes.Store(p + j, probability);
      lanes.Store(ds + j, _mm256_mul_ps(probability, _mm256_sub_ps(lanes.Load(ds + j), delta)));
    });
  }

  const AttentionBackwardProblem& problem_;
  const QueryTiling tiling_;
  const int64_t size_, padded_;
  const Scratch scratch_;
  const int64_t sequence_, kv_head_;
  const float scale_;
};

}  // namespace

void AttentionDelta(const Context& context, const AttentionShape& shape, const float* dout,
                    const float* out, float* delta) {
  const int64_t rows = shape.batch * shape.sequence;
  const int64_t columns = shape.heads * shape.head_size;
  ForBlocks(context, rows, RowsPerTask(columns), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t sequence = i / shape.sequence, position = i % shape.sequence;
      for (int64_t head = 0; head < shape.heads; ++head) {
        const int64_t at = i * columns + head * shape.head_size;
        Vec sum = simd::Zero();
        simd::ForEachVec(shape.head_size, [&](int64_t d, auto lanes) {
          sum = _mm256_fmadd_ps(lanes.Load(dout + at + d), lanes.Load(out + at + d), sum);
        });
        delta[(sequence * shape.heads + head) * shape.sequence + position] = simd::Sum(sum);
      }
    }
  });
}

int64_t AttentionBackwardFloatsPerThread(int64_t heads, int64_t kv_heads, int64_t head_size) {
  return Scratch(QueryTiling(heads, kv_heads, kQueryRows), PaddedHeadSize(head_size), nullptr)
      .floats;
}

void RunAttentionBackward(const Context& context, const AttentionBackwardProblem& problem,
                          float* workspace) {
  const int64_t floats =
      AttentionBackwardFloatsPerThread(problem.heads, problem.kv_heads, problem.head_size);
  context.pool->ParallelFor(problem.batch * problem.kv_heads, [&](int64_t task, int thread) {
    BackwardGroup(problem, task / problem.kv_heads, task % problem.kv_heads,
                  workspace + thread * floats)
        .Run();
  });
}

namespace {

int64_t DeltaFloats(const AttentionShape& shape) {
  return RoundUp(shape.batch * shape.heads * shape.sequence, 16);
}

}  // namespace

int64_t AttentionBackwardWorkspaceBytes(const AttentionShape& shape, int threads) {
  return (DeltaFloats(shape) +
          AttentionBackwardFloatsPerThread(shape.heads, shape.kv_heads, shape.head_size) *
              threads) *
         static_cast<int64_t>(sizeof(float));
}

void AttentionBackward(const Context& context, const AttentionShape& shape, const float* dout,
                       const float* qkv, const float* out, const float* lse,
                       const int32_t* positions, float* dqkv, void* workspace) {
  float* delta = static_cast<float*>(workspace);
  AttentionDelta(context, shape, dout, out, delta);
  const int64_t row = (shape.heads + 2 * shape.kv_heads) * shape.head_size;
  const int64_t k = shape.heads * shape.head_size, v = k + shape.kv_heads * shape.head_size;
  const AttentionBackwardProblem problem = {
      .batch = shape.batch,
      .rows = shape.sequence,
      .offset = 0,
      .keys = shape.sequence,
      .heads = shape.heads,
      .kv_heads = shape.kv_heads,
      .head_size = shape.head_size,
      .q = qkv,
      .k = qkv + k,
      .v = qkv + v,
      .dq = dqkv,
      .dk = dqkv + k,
      .dv = dqkv + v,
      .q_row = row,
      .q_batch = shape.sequence * row,
      .kv_row = row,
      .kv_batch = shape.sequence * row,
      .dout = dout,
      .out_batch = shape.sequence * shape.heads * shape.head_size,
      .lse = lse,
      .delta = delta,
      .lse_rows = shape.sequence,
      .documents = {positions, shape.sequence}};
  RunAttentionBackward(context, problem, delta + DeltaFloats(shape));
}

}  // namespace strata::kernels
