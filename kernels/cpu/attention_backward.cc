#include <cmath>
#include <cstring>

#include "kernels/attention.h"
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

struct Problem {
  const AttentionShape& shape;
  const float *dout, *qkv, *lse, *delta;
  float* dqkv;
};

// All of one key/value head of one sequence: tiles of keys outside, tiles of queries inside.
class BackwardGroup {
 public:
  BackwardGroup(const Problem& problem, int64_t sequence, int64_t kv_head, float* memory)
      : problem_(problem),
        shape_(problem.shape),
        tiling_(shape_.heads, shape_.kv_heads, kQueryRows),
        size_(shape_.head_size),
        padded_(PaddedHeadSize(size_)),
        scratch_(tiling_, padded_, memory),
        sequence_(sequence),
        kv_head_(kv_head),
        scale_(1 / std::sqrt(static_cast<float>(size_))) {}

  void Run() {
    for (int64_t key = 0; key < shape_.sequence; key += kKeys) {
      const int64_t keys = std::min(kKeys, shape_.sequence - key);
      PackKeysAndValues(key, keys);
      const int64_t first = key / tiling_.positions * tiling_.positions;
      for (int64_t position = first; position < shape_.sequence; position += tiling_.positions) {
        QueryTile(position, key, keys);
      }
      WriteKeysAndValues(key, keys);
    }
  }

 private:
  int64_t Stride() const { return (shape_.heads + 2 * shape_.kv_heads) * size_; }
  // Offsets of an element 0 in qkv and dqkv, in out and dout, in lse and delta.
  int64_t QueryAt(int64_t position, int64_t head) const {
    return (sequence_ * shape_.sequence + position) * Stride() + head * size_;
  }
  int64_t KeyAt(int64_t position) const { return QueryAt(position, shape_.heads + kv_head_); }
  int64_t ValueAt(int64_t position) const {
    return QueryAt(position, shape_.heads + shape_.kv_heads + kv_head_);
  }
  int64_t OutAt(int64_t position, int64_t head) const {
    return ((sequence_ * shape_.sequence + position) * shape_.heads + head) * size_;
  }
  int64_t RowAt(int64_t position, int64_t head) const {
    return (sequence_ * shape_.heads + head) * shape_.sequence + position;
  }
  int64_t Head(int64_t row) const { return kv_head_ * tiling_.group + row % tiling_.group; }

  void PackKeysAndValues(int64_t key, int64_t keys) {
    if (keys < kKeys) {
      ZeroRow(scratch_.keys_transposed, 0, padded_ * kKeys);
      ZeroRow(scratch_.values_transposed, 0, padded_ * kKeys);
    }
    TransposeBlock(keys, size_, problem_.qkv + KeyAt(key), Stride(), scratch_.keys_transposed,
                   kKeys);
    TransposeBlock(keys, size_, problem_.qkv + ValueAt(key), Stride(), scratch_.values_transposed,
                   kKeys);
    for (int64_t i = 0; i < keys; ++i) {
      PackRow(size_, padded_, 1.0f, problem_.qkv + KeyAt(key + i), scratch_.keys + i * padded_);
    }
    ZeroRow(scratch_.dkeys, 0, kKeys * padded_);
    ZeroRow(scratch_.dvalues, 0, kKeys * padded_);
  }

  void WriteKeysAndValues(int64_t key, int64_t keys) {
    for (int64_t i = 0; i < keys; ++i) {
      std::memcpy(problem_.dqkv + KeyAt(key + i), scratch_.dkeys + i * padded_,
                  size_ * sizeof(float));
      std::memcpy(problem_.dqkv + ValueAt(key + i), scratch_.dvalues + i * padded_,
                  size_ * sizeof(float));
    }
  }

  // Keys of the tile [key, key + keys) that a query at `position` sees.
  static int64_t Visible(int64_t position, int64_t key, int64_t keys) {
    return std::clamp<int64_t>(position - key + 1, 0, keys);
  }

  void QueryTile(int64_t first, int64_t key, int64_t keys) {
    const int64_t rows = std::min(tiling_.positions, shape_.sequence - first) * tiling_.group;
    for (int64_t row = 0; row < RoundUp(rows, kTileRows); ++row) {
      float* query = scratch_.queries + row * padded_;
      float* dout = scratch_.douts + row * padded_;
      if (row >= rows) {
        ZeroRow(query, 0, padded_);
        ZeroRow(dout, 0, padded_);
        continue;
      }
      const int64_t position = first + row / tiling_.group;
      PackRow(size_, padded_, scale_, problem_.qkv + QueryAt(position, Head(row)), query);
      PackRow(size_, padded_, 1.0f, problem_.dout + OutAt(position, Head(row)), dout);
    }
    for (int64_t row = 0; row < rows; row += kTileRows) QueryPanel(row, rows, first, key, keys);

    // dV += P^T dO and dK += dS^T Q, six keys at a time, over the rows that see any of them.
    for (int64_t k = 0; k < keys; k += kTileRows) {
      const int64_t blind = std::max<int64_t>(0, key + k - first) * tiling_.group;
      const int64_t start = blind / kTileRows * kTileRows;
      if (start >= rows) break;
      const int64_t from = start * kKeys + k;
      PanelProduct(padded_, rows - start, scratch_.probabilities + from, 1, kKeys,
                   scratch_.douts + start * padded_, padded_, scratch_.dvalues + k * padded_,
                   padded_, true);
      PanelProduct(padded_, rows - start, scratch_.dscores + from, 1, kKeys,
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
    float* p = scratch_.probabilities + row * kKeys;
    float* ds = scratch_.dscores + row * kKeys;
    PanelProduct(seen, size_, scratch_.queries + row * padded_, padded_, 1,
                 scratch_.keys_transposed, kKeys, p, kKeys, false);
    PanelProduct(seen, size_, scratch_.douts + row * padded_, padded_, 1,
                 scratch_.values_transposed, kKeys, ds, kKeys, false);
    // Products over six keys read up to five columns past the last seen one.
    const int64_t zero_end = std::min(kKeys, seen + kTileRows);
    for (int64_t i = row; i < row + kTileRows; ++i, p += kKeys, ds += kKeys) {
      const int64_t position = first + i / tiling_.group;
      const int64_t valid = i < rows ? Visible(position, key, seen) : 0;
      if (valid > 0) ScoreRow(valid, RowAt(position, Head(i)), p, ds);
      ZeroRow(p, valid, zero_end);
      ZeroRow(ds, valid, zero_end);
    }
    PanelProduct(padded_, seen, scratch_.dscores + row * kKeys, kKeys, 1, scratch_.keys, padded_,
                 scratch_.dqueries, padded_, false);
    for (int64_t i = row; i < end; ++i) {
      float* to = problem_.dqkv + QueryAt(first + i / tiling_.group, Head(i));
      const float* from = scratch_.dqueries + (i - row) * padded_;
      simd::ForEachVec(size_, [=, this](int64_t d, auto lanes) {
        Vec value = _mm256_mul_ps(lanes.Load(from + d), simd::Set(scale_));
        if (key > 0) value = _mm256_add_ps(value, lanes.Load(to + d));
        lanes.Store(to + d, value);
      });
    }
  }

  // The rows of dQ that this panel adds to, and the same rows of the next query tile.
  void Prefetch(int64_t row, int64_t end, int64_t first) const {
    for (int64_t i = row; i < end; ++i) {
      const int64_t position = first + i / tiling_.group, head = Head(i);
      PrefetchRow(size_, problem_.dqkv + QueryAt(position, head));
      const int64_t next = position + tiling_.positions;
      if (next >= shape_.sequence) continue;
      PrefetchRow(size_, problem_.qkv + QueryAt(next, head));
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

  const Problem& problem_;
  const AttentionShape& shape_;
  const QueryTiling tiling_;
  const int64_t size_, padded_;
  const Scratch scratch_;
  const int64_t sequence_, kv_head_;
  const float scale_;
};

// delta[B, H, T] = sum over d of dout * out.
void ComputeDelta(const Context& context, const AttentionShape& shape, const float* dout,
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

int64_t DeltaFloats(const AttentionShape& shape) {
  return RoundUp(shape.batch * shape.heads * shape.sequence, 16);
}

int64_t FloatsPerThread(const AttentionShape& shape) {
  return Scratch(QueryTiling(shape.heads, shape.kv_heads, kQueryRows),
                 PaddedHeadSize(shape.head_size), nullptr)
      .floats;
}

}  // namespace

int64_t AttentionBackwardWorkspaceBytes(const AttentionShape& shape, int threads) {
  return (DeltaFloats(shape) + FloatsPerThread(shape) * threads) *
         static_cast<int64_t>(sizeof(float));
}

void AttentionBackward(const Context& context, const AttentionShape& shape, const float* dout,
                       const float* qkv, const float* out, const float* lse, float* dqkv,
                       void* workspace) {
  float* delta = static_cast<float*>(workspace);
  float* scratch = delta + DeltaFloats(shape);
  const int64_t floats = FloatsPerThread(shape);
  ComputeDelta(context, shape, dout, out, delta);
  const Problem problem = {shape, dout, qkv, lse, delta, dqkv};
  context.pool->ParallelFor(shape.batch * shape.kv_heads, [&](int64_t task, int thread) {
    BackwardGroup(problem, task / shape.kv_heads, task % shape.kv_heads, scratch + thread * floats)
        .Run();
  });
}

}  // namespace strata::kernels
