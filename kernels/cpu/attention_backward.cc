#include "kernels/cpu/attention_backward.h"

#include <type_traits>

#include "kernels/cpu/attention_scores.h"
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/functions.h"
#include "kernels/cpu/packing.h"

namespace strata::kernels::STRATA_ISA {
namespace {

using simd::Vec;

// How long tiles are for heads of some size: all of a task's (about 310 KiB at D = 64) fit a
// second-level cache.
struct TileSizes {
  int64_t padded;  // of a head
  int64_t rows;    // of queries
  int64_t keys;
  int64_t padded_keys;  // to whole panels

  explicit TileSizes(int64_t head_size)
      : padded(PaddedHeadSize(head_size)),
        rows(padded <= 64 ? 96 : 48),
        keys(padded <= 128 ? kKeys : kKeys / 2),
        padded_keys(RoundUp(keys, kTileColumns)) {}
};

// Gradients of queries are summed over tiles of keys: in place in f32, else here first.
template <typename T>
constexpr bool kSumsApart = !std::is_same_v<T, float>;

struct Scratch {
  float *keys_transposed, *values_transposed;  // [kKeys / columns][D][columns]
  float* keys;                                 // [Dp / columns][keys of the tile][columns]
  float *dkeys, *dvalues;                      // [kKeys, Dp]
  float *queries, *douts;                      // [rows, Dp], queries times the rule's factor
  float *query_panels, *dout_panels;  // the same as [Dp / columns][rows of the tile][columns]
  float *probabilities, *dscores;     // [rows, kKeys]
  float* dqueries;                    // [kBlockRows, Dp]
  float* sums;                        // [rows of the sequence, group, Dp]
  int64_t floats;

  Scratch(const QueryTiling& tiling, const TileSizes& sizes, int64_t summed_rows, float* memory) {
    Carver carver(memory);
    const int64_t rows = RoundUp(tiling.rows, kBlockRows);
    for (float** tile : {&keys_transposed, &values_transposed, &keys, &dkeys, &dvalues}) {
      *tile = carver.Take(sizes.padded_keys * sizes.padded);
    }
    for (float** tile : {&queries, &douts, &query_panels, &dout_panels}) {
      *tile = carver.Take(rows * sizes.padded);
    }
    for (float** tile : {&probabilities, &dscores}) *tile = carver.Take(rows * kKeys);
    dqueries = carver.Take(kBlockRows * sizes.padded);
    sums = carver.Take(summed_rows * tiling.group * sizes.padded);
    floats = carver.FloatsFrom(memory);
  }
};

// All of one key/value head of one sequence: tiles of keys outside, tiles of queries inside.
template <typename T>
class BackwardGroup {
 public:
  BackwardGroup(const AttentionBackwardProblem<T>& problem, int64_t sequence, int64_t kv_head,
                float* memory)
      : problem_(problem),
        size_(problem.head_size),
        sizes_(size_),
        tiling_(problem.heads, problem.kv_heads, sizes_.rows),
        rule_(problem.scores, size_),
        scratch_(tiling_, sizes_, kSumsApart<T> ? problem.rows : 0, memory),
        sequence_(sequence),
        kv_head_(kv_head) {}

  void Run() {
    if (kSumsApart<T>) ZeroRow(scratch_.sums, 0, problem_.rows * tiling_.group * sizes_.padded);
    for (key_ = 0; key_ < problem_.keys; key_ += sizes_.keys) {
      keys_ = std::min(sizes_.keys, problem_.keys - key_);
      PackKeysAndValues();
      const int64_t sees = std::max<int64_t>(0, key_ - problem_.offset);  // the first row that does
      const int64_t first = sees / tiling_.positions * tiling_.positions;
      for (int64_t row = first; row < problem_.rows; row += tiling_.positions) {
        const int64_t end = std::min(row + tiling_.positions, problem_.rows);
        if (FirstKey(row, end) >= key_ + keys_) continue;
        first_ = row;
        rows_ = (end - row) * tiling_.group;
        QueryTile();
      }
      WriteKeysAndValues();
    }
    if constexpr (kSumsApart<T>) WriteSums();
  }

 private:
  // Six rows, and the columns of scores that any of them sees, from a whole micro kernel on.
  struct Panel {
    int64_t row, end, from, to;
    bool goes_on;  // some were seen in earlier tiles
    bool any() const { return to > from; }
  };

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

  void PackKeysAndValues() {
    const T *k = problem_.k + KeyAt(key_), *v = problem_.v + KeyAt(key_);
    PackB(keys_, size_, k, problem_.kv_row, true, scratch_.keys_transposed);
    PackB(keys_, size_, v, problem_.kv_row, true, scratch_.values_transposed);
    PackB(size_, keys_, k, problem_.kv_row, false, scratch_.keys);
    ZeroRow(scratch_.dkeys, 0, sizes_.keys * sizes_.padded);
    ZeroRow(scratch_.dvalues, 0, sizes_.keys * sizes_.padded);
  }

  // to (+)= factor * from.
  template <typename To>
  void WriteRow(const float* from, float factor, bool adds, To* to) const {
    simd::ForEachVec(size_, [=](int64_t d, auto lanes) {
      Vec value = simd::Mul(lanes.Load(from + d), simd::Set(factor));
      if (adds) value = simd::Add(value, lanes.Load(to + d));
      lanes.Store(to + d, value);
    });
  }

  void WriteKeysAndValues() {
    for (int64_t i = 0; i < keys_; ++i) {
      const int64_t at = KeyAt(key_ + i), from = i * sizes_.padded;
      WriteRow(scratch_.dkeys + from, rule_.key_factor(), problem_.adds_dkv, problem_.dk + at);
      WriteRow(scratch_.dvalues + from, 1.0f, problem_.adds_dkv, problem_.dv + at);
    }
  }

  void WriteSums() {
    for (int64_t row = 0; row < problem_.rows * tiling_.group; ++row) {
      WriteRow(scratch_.sums + row * sizes_.padded, 1.0f, problem_.adds_dq,
               problem_.dq + QueryAt(row / tiling_.group, Head(row)));
    }
  }

  // Keys of the tile up to which a query row sees.
  int64_t Visible(int64_t row) const {
    return std::clamp<int64_t>(problem_.offset + row - key_ + 1, 0, keys_);
  }
  // The first key that any of rows [begin, end) sees.
  int64_t FirstKey(int64_t begin, int64_t end) const {
    return problem_.sight.FirstKey(sequence_, begin, end);
  }
  // Of a tile's rows, those from here on see no key up to `key`.
  int64_t RowsThatSee(int64_t key) const {
    if (!problem_.sight.limited()) return rows_;
    int64_t end = first_ + rows_ / tiling_.group;
    while (end > first_ && FirstKey(end - 1, end) > key) --end;
    return (end - first_) * tiling_.group;
  }

  void QueryTile() {
    PackQueries();
    for (int64_t row = 0; row < rows_; row += kBlockRows) Block(row);
    // dV += P^T dO and dK += dS^T Q, six keys at a time, over the rows that see any of them.
    for (int64_t k = 0; k < keys_; k += kTileRows) {
      const int64_t blind =
          std::max<int64_t>(0, key_ + k - problem_.offset - first_) * tiling_.group;
      starts_[k / kTileRows] = blind / kTileRows * kTileRows;
      ends_[k / kTileRows] = std::min(rows_, RowsThatSee(key_ + k + kTileRows - 1));
    }
    AddByKeys(scratch_.probabilities, scratch_.dout_panels, scratch_.dvalues);
    AddByKeys(scratch_.dscores, scratch_.query_panels, scratch_.dkeys);
  }

  void PackQueries() {
    const int64_t padded = sizes_.padded, whole = RoundUp(rows_, kTileRows);
    for (int64_t row = 0; row < whole; ++row) {
      float* query = scratch_.queries + row * padded;
      float* dout = scratch_.douts + row * padded;
      if (row >= rows_) {
        ZeroRow(query, 0, padded);
        ZeroRow(dout, 0, padded);
        continue;
      }
      const int64_t position = first_ + row / tiling_.group;
      PackRow(size_, padded, rule_.query_factor, problem_.q + QueryAt(position, Head(row)), query);
      PackRow(size_, padded, 1.0f, problem_.dout + OutAt(position, Head(row)), dout);
    }
    PackB(padded, rows_, scratch_.queries, padded, false, scratch_.query_panels);
    PackB(padded, rows_, scratch_.douts, padded, false, scratch_.dout_panels);
  }

  // sums[keys, Dp] += weights^T[keys, rows] panels[rows, Dp].
  void AddByKeys(const float* weights, const float* panels, float* sums) const {
    for (int64_t k = 0; k < keys_; k += kTileRows) {
      const int64_t start = starts_[k / kTileRows], end = ends_[k / kTileRows];
      if (start >= end) continue;
      for (int64_t d = 0; d < sizes_.padded; d += kTileColumns) {
        MicroKernel(end - start, weights + start * kKeys + k, 1, kKeys,
                    panels + d * rows_ + start * kTileColumns, kTileColumns,
                    sums + k * sizes_.padded + d, sizes_.padded, true);
      }
    }
  }

  Panel PanelOf(int64_t row) const {
    const int64_t end = std::min(row + kTileRows, rows_);
    const int64_t begin = first_ + row / tiling_.group;
    const int64_t last = first_ + (end - 1) / tiling_.group;
    const int64_t first_key = FirstKey(begin, last + 1);
    return {.row = row,
            .end = end,
            .from = std::max<int64_t>(0, first_key - key_) / kTileColumns * kTileColumns,
            .to = first_key < key_ + Visible(last) ? Visible(last) : 0,
            .goes_on = key_ > first_key || problem_.adds_dq};
  }

  // A block of query rows: P = exp(S - lse), dS = P * (dP - delta), dQ += dS K.
  void Block(int64_t row) {
    Panel panels[kBlockPanels];
    int64_t count = 0;
    for (int64_t end = std::min(row + kBlockRows, rows_); row < end; row += kTileRows) {
      const Panel panel = PanelOf(row);
      Prefetch(panel);
      if (panel.any()) {
        panels[count++] = panel;
      } else {
        // The tile's other rows may see some: products over six keys read these too.
        ZeroRow(scratch_.probabilities + row * kKeys, 0, kTileRows * kKeys);
        ZeroRow(scratch_.dscores + row * kKeys, 0, kTileRows * kKeys);
      }
    }
    const int64_t padded = sizes_.padded;
    const auto multiply = [&](const float* rows, const float* columns, float* to) {
      for (int64_t j = 0; j < keys_; j += kTileColumns) {
        for (int64_t p = 0; p < count; ++p) {
          if (j < panels[p].from || j >= panels[p].to) continue;
          MicroKernel(size_, rows + panels[p].row * padded, padded, 1, columns + j * size_,
                      kTileColumns, to + panels[p].row * kKeys + j, kKeys, false);
        }
      }
    };
    multiply(scratch_.queries, scratch_.keys_transposed, scratch_.probabilities);
    multiply(scratch_.douts, scratch_.values_transposed, scratch_.dscores);
    for (int64_t p = 0; p < count; ++p) ScorePanel(panels[p]);
    for (int64_t d = 0; d < padded; d += kTileColumns) {
      for (int64_t p = 0; p < count; ++p) {
        const int64_t from = panels[p].from;
        MicroKernel(panels[p].to - from, scratch_.dscores + panels[p].row * kKeys + from, kKeys, 1,
                    scratch_.keys + d * keys_ + from * kTileColumns, kTileColumns,
                    scratch_.dqueries + p * kTileRows * padded + d, padded, false);
      }
    }
    for (int64_t p = 0; p < count; ++p) {
      AddQueries(panels[p], scratch_.dqueries + p * kTileRows * padded);
    }
  }

  void AddQueries(const Panel& panel, const float* from) {
    for (int64_t i = panel.row; i < panel.end; ++i, from += sizes_.padded) {
      const int64_t position = first_ + i / tiling_.group;
      if constexpr (kSumsApart<T>) {
        WriteRow(from, rule_.scale, true,
                 scratch_.sums + (first_ * tiling_.group + i) * sizes_.padded);
      } else {
        WriteRow(from, rule_.scale, panel.goes_on, problem_.dq + QueryAt(position, Head(i)));
      }
    }
  }

  // Scores of the six rows become probabilities, what came by the values their gradients; zeros
  // where a row does not see.
  void ScorePanel(const Panel& panel) {
    float* p = scratch_.probabilities + panel.row * kKeys;
    float* ds = scratch_.dscores + panel.row * kKeys;
    // Products over six keys read up to five columns past the last seen one.
    const int64_t zero_end = std::min(kKeys, panel.to + kTileRows);
    for (int64_t i = panel.row; i < panel.row + kTileRows; ++i, p += kKeys, ds += kKeys) {
      const int64_t position = first_ + i / tiling_.group;
      const int64_t valid = i < rows_ ? std::min(Visible(position), panel.to) : 0;
      const int64_t begin =
          valid > 0 ? std::clamp<int64_t>(FirstKey(position, position + 1) - key_, 0, valid) : 0;
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
  void Prefetch(const Panel& panel) const {
    for (int64_t i = panel.row; i < panel.end; ++i) {
      const int64_t position = first_ + i / tiling_.group, head = Head(i);
      if (!kSumsApart<T>) PrefetchRow(size_, problem_.dq + QueryAt(position, head));
      const int64_t next = position + tiling_.positions;
      if (next >= problem_.rows) continue;
      PrefetchRow(size_, problem_.q + QueryAt(next, head));
      PrefetchRow(size_, problem_.dout + OutAt(next, head));
    }
  }

  void ScoreRow(int64_t valid, int64_t at, float* p, float* ds) const {
    const Vec lse = simd::Set(problem_.lse[at] * kLog2E), delta = simd::Set(problem_.delta[at]);
    if (rule_.softcap > 0) return ScoreCappedRow(valid, lse, delta, p, ds);
    simd::ForEachVec(valid, [=](int64_t j, auto lanes) {
      const Vec probability = Exp2(simd::Sub(lanes.Load(p + j), lse));
      lanes.Store(p + j, probability);
      lanes.Store(ds + j, simd::Mul(probability, simd::Sub(lanes.Load(ds + j), delta)));
    });
  }

  // The derivative of a capped score by its score is 1 - tanh^2.
  void ScoreCappedRow(int64_t valid, Vec lse, Vec delta, float* p, float* ds) const {
    const Vec cap = simd::Set(rule_.cap()), one = simd::Set(1.0f);
    simd::ForEachVec(valid, [=](int64_t j, auto lanes) {
      const Vec tanh = simd::Tanh(lanes.Load(p + j));
      const Vec probability = Exp2(simd::MulSub(tanh, cap, lse));
      const Vec slope = simd::NegMulAdd(tanh, tanh, one);
      const Vec gradient = simd::Mul(probability, simd::Sub(lanes.Load(ds + j), delta));
      lanes.Store(p + j, probability);
      lanes.Store(ds + j, simd::Mul(gradient, slope));
    });
  }

  const AttentionBackwardProblem<T>& problem_;
  const int64_t size_;
  const TileSizes sizes_;
  const QueryTiling tiling_;
  const ScoreRule rule_;
  const Scratch scratch_;
  const int64_t sequence_, kv_head_;
  // The tiles at hand: keys [key_, key_ + keys_), and rows_ rows from position first_ on.
  int64_t key_ = 0, keys_ = 0, first_ = 0, rows_ = 0;
  // Rows that see any of six keys.
  int64_t starts_[kKeys / kTileRows] = {}, ends_[kKeys / kTileRows] = {};
};

}  // namespace

template <typename T>
void AttentionDelta(const Context& context, const AttentionShape& shape, const T* dout,
                    const T* out, float* delta) {
  const int64_t rows = shape.batch * shape.sequence;
  const int64_t columns = shape.heads * shape.head_size;
  ForBlocks(context, rows, RowsPerTask(columns), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t sequence = i / shape.sequence, position = i % shape.sequence;
      for (int64_t head = 0; head < shape.heads; ++head) {
        const int64_t at = i * columns + head * shape.head_size;
        Vec sum = simd::Zero();
        simd::ForEachVec(shape.head_size, [&](int64_t d, auto lanes) {
          sum = simd::MulAdd(lanes.Load(dout + at + d), lanes.Load(out + at + d), sum);
        });
        delta[(sequence * shape.heads + head) * shape.sequence + position] = simd::Sum(sum);
      }
    }
  });
}

template <typename T>
int64_t AttentionBackwardLanesFloats(const AttentionShape& shape, int64_t rows) {
  const TileSizes sizes(shape.head_size);
  return Scratch(QueryTiling(shape.heads, shape.kv_heads, sizes.rows), sizes,
                 kSumsApart<T> ? rows : 0, nullptr)
      .floats;
}

template <typename T>
void AttentionBackwardByLanes(const Context& context, const AttentionBackwardProblem<T>& problem,
                              float* workspace) {
  const AttentionShape shape = {
      .heads = problem.heads, .kv_heads = problem.kv_heads, .head_size = problem.head_size};
  const int64_t floats = STRATA_ISA::AttentionBackwardLanesFloats<T>(shape, problem.rows);
  context.pool->ParallelFor(problem.batch * problem.kv_heads, [&](int64_t task, int thread) {
    BackwardGroup<T>(problem, task / problem.kv_heads, task % problem.kv_heads,
                     workspace + thread * floats)
        .Run();
  });
}

}  // namespace strata::kernels::STRATA_ISA

namespace strata::kernels {

STRATA_KERNEL(void, AttentionDelta, const Context&, const AttentionShape&, const T*, const T*,
              float*)
STRATA_KERNEL(int64_t, AttentionBackwardLanesFloats, const AttentionShape&, int64_t)
STRATA_KERNEL(void, AttentionBackwardByLanes, const Context&, const AttentionBackwardProblem<T>&,
              float*)

}  // namespace strata::kernels
