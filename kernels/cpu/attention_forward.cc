#include "kernels/cpu/attention_forward.h"

#include <cmath>
#include <limits>

#include "kernels/attention.h"
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/packing.h"

namespace strata::kernels {
namespace {

using simd::Vec;

// Many rows per packing of the keys and values; what a tile keeps per row is small.
constexpr int64_t kQueryRows = 192;
constexpr float kLowest = -std::numeric_limits<float>::infinity();
// Of a row that has seen no key. Not infinite: rows of other documents leave it as it is, and the
// difference of two infinities is no number.
constexpr float kNoneSeen = std::numeric_limits<float>::lowest();

struct Scratch {
  float* keys;     // [Dp, kKeys], transposed
  float* values;   // [kKeys, Dp]
  float* queries;  // [rows, Dp], scaled
  float* out;      // [rows, Dp], not yet divided by the sums
  float* max;      // [rows]
  float* sum;      // [rows]
  float* scores;   // [6, kKeys]
  int64_t floats;

  Scratch(const QueryTiling& tiling, int64_t padded, float* memory) {
    Carver carver(memory);
    keys = carver.Take(padded * kKeys);
    values = carver.Take(kKeys * padded);
    queries = carver.Take(tiling.rows * padded);
    out = carver.Take(tiling.rows * padded);
    max = carver.Take(tiling.rows + simd::kLanes);
    sum = carver.Take(tiling.rows + simd::kLanes);
    scores = carver.Take(kTileRows * kKeys);
    floats = carver.FloatsFrom(memory);
  }
};

// scores[0, valid) become exponentials relative to the new running maximum, [valid, keys) zeros.
// Returns their sum.
float SoftmaxRow(int64_t valid, int64_t keys, float* scores, float* max) {
  Vec highest = simd::Set(*max);
  simd::ForEachVec(valid, [&](int64_t i, auto lanes) {
    highest = _mm256_max_ps(lanes.LoadOr(scores + i, highest), highest);
  });
  *max = simd::Max(highest);
  const Vec shift = simd::Set(*max);
  Vec sum = simd::Zero();
  simd::ForEachVec(valid, [&](int64_t i, auto lanes) {
    const Vec score = _mm256_sub_ps(lanes.LoadOr(scores + i, simd::Set(kLowest)), shift);
    const Vec value = simd::Exp(score);
    lanes.Store(scores + i, value);
    sum = _mm256_add_ps(sum, value);
  });
  ZeroRow(scores, valid, keys);
  return simd::Sum(sum);
}

// One query tile of one group.
class ForwardTile {
 public:
  ForwardTile(const AttentionProblem& problem, int64_t sequence, int64_t kv_head,
              int64_t first_position, float* memory)
      : problem_(problem),
        tiling_(problem.heads, problem.kv_heads, kQueryRows),
        padded_(PaddedHeadSize(problem.head_size)),
        scratch_(tiling_, padded_, memory),
        sequence_(sequence),
        kv_head_(kv_head),
        first_(first_position),
        rows_(std::min(tiling_.positions, problem.rows - first_position) * tiling_.group) {}

  void Run() {
    PackQueries();
    const int64_t last =
        std::min(problem_.offset + first_ + (rows_ - 1) / tiling_.group, problem_.keys - 1);
    for (int64_t key = FirstKey(0, rows_); key <= last; key += kKeys) {
      const int64_t keys = std::min(kKeys, last + 1 - key);
      PackKeysAndValues(key, keys);
      for (int64_t row = 0; row < rows_; row += kTileRows) {
        PrefetchKeys(key + kKeys + row, std::min(last + 1, key + kKeys + row + kTileRows));
        Panel(row, key, keys);
      }
    }
    for (int64_t row = 0; row < rows_; ++row) Finish(row);
  }

 private:
  int64_t PositionInTile(int64_t row) const { return row / tiling_.group; }
  // The first key that any of the tile's rows [begin, end) sees.
  int64_t FirstKey(int64_t begin, int64_t end) const {
    return problem_.documents.FirstKey(sequence_, first_ + PositionInTile(begin),
                                       first_ + PositionInTile(end - 1) + 1);
  }
  int64_t Head(int64_t row) const { return kv_head_ * tiling_.group + row % tiling_.group; }

  void PackQueries() {
    const int64_t size = problem_.head_size;
    const float scale = 1 / std::sqrt(static_cast<float>(size));
    for (int64_t row = 0; row < RoundUp(rows_, kTileRows); ++row) {
      float* to = scratch_.queries + row * padded_;
      scratch_.max[row] = kNoneSeen;
      scratch_.sum[row] = 0;
      if (problem_.resumes) Resume(row);
      if (row >= rows_) {
        ZeroRow(to, 0, padded_);
        continue;
      }
      const float* from = problem_.q + sequence_ * problem_.q_batch +
                          (first_ + PositionInTile(row)) * problem_.q_row + Head(row) * size;
      PackRow(size, padded_, scale, from, to);
    }
  }

  void Resume(int64_t row) {
    float* out = scratch_.out + row * padded_;
    if (row >= rows_) return ZeroRow(out, 0, padded_);
    PackRow(problem_.head_size, padded_, 1.0f, problem_.out + OutAt(row), out);
    scratch_.max[row] = problem_.lse[LseAt(row)];
    scratch_.sum[row] = 1;
  }

  int64_t OutAt(int64_t row) const {
    return sequence_ * problem_.out_batch +
           ((first_ + PositionInTile(row)) * problem_.heads + Head(row)) * problem_.head_size;
  }
  int64_t LseAt(int64_t row) const {
    return (sequence_ * problem_.heads + Head(row)) * problem_.lse_rows + first_ +
           PositionInTile(row);
  }

  int64_t KeyAt(int64_t position) const {
    return sequence_ * problem_.kv_batch + position * problem_.kv_row +
           kv_head_ * problem_.head_size;
  }

  void PackKeysAndValues(int64_t key, int64_t keys) {
    const int64_t size = problem_.head_size;
    const int64_t at = KeyAt(key);
    if (keys < kKeys) ZeroRow(scratch_.keys, 0, padded_ * kKeys);
    TransposeBlock(keys, size, problem_.k + at, problem_.kv_row, scratch_.keys, kKeys);
    for (int64_t i = 0; i < keys; ++i) {
      PackRow(size, padded_, 1.0f, problem_.v + at + i * problem_.kv_row,
              scratch_.values + i * padded_);
    }
  }

  void PrefetchKeys(int64_t begin, int64_t end) const {
    for (int64_t key = begin; key < end; ++key) {
      PrefetchRow(problem_.head_size, problem_.k + KeyAt(key));
      PrefetchRow(problem_.head_size, problem_.v + KeyAt(key));
    }
  }

  // Six query rows against the key tile [key, key + keys).
  void Panel(int64_t row, int64_t key, int64_t keys) {
    const int64_t last_row = std::min(row + kTileRows, rows_) - 1;
    const int64_t base = problem_.offset + first_ - key + 1;  // keys visible to tile position 0
    keys = std::min(keys, base + PositionInTile(last_row));
    const int64_t first_key = FirstKey(row, last_row + 1);
    if (keys <= std::max<int64_t>(0, first_key - key)) return;
    // From here on, in whole micro kernels.
    const int64_t from = std::max<int64_t>(0, first_key - key) / kTileColumns * kTileColumns;
    PanelProduct(keys - from, problem_.head_size, scratch_.queries + row * padded_, padded_, 1,
                 scratch_.keys + from, kKeys, scratch_.scores + from, kKeys, false);
    const Vec max_before = _mm256_loadu_ps(scratch_.max + row);
    for (int64_t i = 0; i < kTileRows; ++i) {
      added_[i] = row + i > last_row ? BlindRow(i, from, keys) : SeeingRow(row, i, key, from, keys);
    }
    float* out = scratch_.out + row * padded_;
    const bool goes_on = key > first_key || problem_.resumes;
    if (goes_on) Rescale(row, max_before, out);
    for (int64_t i = 0; i < kTileRows; ++i) scratch_.sum[row + i] += added_[i];
    PanelProduct(padded_, keys - from, scratch_.scores + from, kKeys, 1,
                 scratch_.values + from * padded_, padded_, out, padded_, goes_on);
  }

  // Row i of a panel that sees none of the tile's keys [from, keys): what is added to its sum.
  float BlindRow(int64_t i, int64_t from, int64_t keys) const {
    ZeroRow(scratch_.scores + i * kKeys, from, keys);
    return 0;
  }

  // The same where it may see some.
  float SeeingRow(int64_t row, int64_t i, int64_t key, int64_t from, int64_t keys) {
    const int64_t position = first_ + PositionInTile(row + i);
    const int64_t begin = problem_.documents.FirstKey(sequence_, position) - key;
    const int64_t first = std::clamp<int64_t>(begin, 0, keys);
    const int64_t end = std::clamp<int64_t>(problem_.offset + position - key + 1, 0, keys);
    if (first >= end) return BlindRow(i, from, keys);
    float* scores = scratch_.scores + i * kKeys;
    ZeroRow(scores, from, first);
    return SoftmaxRow(end - first, keys - first, scores + first, scratch_.max + row + i);
  }

  // What was summed so far is relative to the old maximum.
  void Rescale(int64_t row, Vec max_before, float* out) const {
    alignas(32) float correction[simd::kLanes];
    const Vec max_after = _mm256_loadu_ps(scratch_.max + row);
    _mm256_store_ps(correction, simd::Exp(_mm256_sub_ps(max_before, max_after)));
    for (int64_t i = 0; i < kTileRows && row + i < rows_; ++i) {
      scratch_.sum[row + i] *= correction[i];
      float* to = out + i * padded_;
      for (int64_t d = 0; d < padded_; d += simd::kLanes) {
        _mm256_storeu_ps(to + d, _mm256_mul_ps(_mm256_loadu_ps(to + d), simd::Set(correction[i])));
      }
    }
  }

  void Finish(int64_t row) {
    const float* from = scratch_.out + row * padded_;
    float* to = problem_.out + OutAt(row);
    const Vec factor = simd::Set(1 / scratch_.sum[row]);
    simd::ForEachVec(problem_.head_size, [=](int64_t i, auto lanes) {
      lanes.Store(to + i, _mm256_mul_ps(lanes.Load(from + i), factor));
    });
    if (problem_.lse != nullptr) {
      problem_.lse[LseAt(row)] = scratch_.max[row] + std::log(scratch_.sum[row]);
    }
  }

  const AttentionProblem& problem_;
  const QueryTiling tiling_;
  const int64_t padded_;
  const Scratch scratch_;
  const int64_t sequence_, kv_head_, first_, rows_;
  float added_[kTileRows] = {};
};

}  // namespace

int64_t AttentionForwardFloatsPerThread(int64_t heads, int64_t kv_heads, int64_t head_size) {
  return Scratch(QueryTiling(heads, kv_heads, kQueryRows), PaddedHeadSize(head_size), nullptr)
      .floats;
}

void RunAttentionForward(const Context& context, const AttentionProblem& problem,
                         float* workspace) {
  const QueryTiling tiling(problem.heads, problem.kv_heads, kQueryRows);
  const int64_t tiles = CeilDiv(problem.rows, tiling.positions);
  const int64_t groups = problem.batch * problem.kv_heads;
  const int64_t floats =
      AttentionForwardFloatsPerThread(problem.heads, problem.kv_heads, problem.head_size);
  context.pool->ParallelFor(tiles * groups, [&](int64_t task, int thread) {
    // Tasks that follow each other share keys and values; the tile that sees most of them is first.
    const int64_t tile = tiles - 1 - task % tiles;
    const int64_t group = task / tiles;
    ForwardTile(problem, group / problem.kv_heads, group % problem.kv_heads,
                tile * tiling.positions, workspace + thread * floats)
        .Run();
  });
}

int64_t AttentionForwardWorkspaceBytes(const AttentionShape& shape, int threads) {
  return AttentionForwardFloatsPerThread(shape.heads, shape.kv_heads, shape.head_size) * threads *
         static_cast<int64_t>(sizeof(float));
}

void AttentionForward(const Context& context, const AttentionShape& shape, const float* qkv,
                      const int32_t* positions, float* out, float* lse, void* workspace) {
  const int64_t row = (shape.heads + 2 * shape.kv_heads) * shape.head_size;
  const float* k = qkv + shape.heads * shape.head_size;
  const float* v = k + shape.kv_heads * shape.head_size;
  const AttentionProblem problem = {.batch = shape.batch,
                                    .rows = shape.sequence,
                                    .offset = 0,
                                    .keys = shape.sequence,
                                    .heads = shape.heads,
                                    .kv_heads = shape.kv_heads,
                                    .head_size = shape.head_size,
                                    .q = qkv,
                                    .k = k,
                                    .v = v,
                                    .q_row = row,
                                    .q_batch = shape.sequence * row,
                                    .kv_row = row,
                                    .kv_batch = shape.sequence * row,
                                    .out = out,
                                    .out_batch = shape.sequence * shape.heads * shape.head_size,
                                    .lse = lse,
                                    .lse_rows = shape.sequence,
                                    .documents = {positions, shape.sequence}};
  RunAttentionForward(context, problem, static_cast<float*>(workspace));
}

}  // namespace strata::kernels
