#include "kernels/cpu/attention_amx.h"
#include "kernels/cpu/attention_amx_tile.h"
#include "kernels/cpu/attention_scores.h"
#include "kernels/cpu/functions.h"
#include "kernels/cpu/tile_rows.h"

namespace strata::kernels::avx512::amx {
namespace {

struct TileSizes {
  int64_t padded;  // of a head
  int64_t rows;
  int64_t keys;

  explicit TileSizes(int64_t head_size)
      : padded(RoundUp(head_size, kPanel)),
        rows(padded <= 64 ? 128 : 64),
        keys(padded <= 128 ? 128 : 64) {}
};
constexpr int64_t kMostPanels = 4;  // of rows or keys of a tile

// Scores are made with keys as rows, S^T = K Q^T: so they are, narrowed, the first factors of dV =
// P^T dO and dK = dS^T Q, and in pairs of rows the second one of dQ^T = K^T dS^T.
struct Scratch {
  BFloat16 *keys, *values;             // panels of rows: keys over D
  BFloat16* keys_transposed;           // panels of rows: of D over keys
  float *dkeys, *dvalues;              // [keys / 32][Dp / 32] blocks
  BFloat16* rows;                      // [rows, Dp], one after the other
  BFloat16 *queries, *douts;           // panels of columns: of rows over D,
  BFloat16 *query_pairs, *dout_pairs;  // and of D over rows
  float *lse, *delta;                  // [rows], the former in units of ln 2
  Visible visible;
  float *scores, *gradients;          // a block each
  BFloat16 *probabilities, *dscores;  // a panel of rows: keys over rows
  BFloat16* dscore_columns;           // panels of columns: of rows over keys
  float* dqueries;                    // [rows of the sequence / 32][Dp / 32] blocks, transposed
  int64_t floats;

  Scratch(const TileSizes& sizes, int64_t summed_rows, float* memory) {
    Carver carver(memory);
    for (BFloat16** tile : {&keys, &values, &keys_transposed}) {
      *tile = TakeNumbers(carver, sizes.keys * sizes.padded);
    }
    for (float** tile : {&dkeys, &dvalues}) *tile = carver.Take(sizes.keys * sizes.padded);
    for (BFloat16** tile : {&rows, &queries, &douts, &query_pairs, &dout_pairs}) {
      *tile = TakeNumbers(carver, sizes.rows * sizes.padded);
    }
    for (float** of_rows : {&lse, &delta}) *of_rows = carver.Take(sizes.rows);
    for (int32_t** of_rows : {&visible.first, &visible.last}) {
      *of_rows = reinterpret_cast<int32_t*>(carver.Take(sizes.rows));
    }
    for (float** block : {&scores, &gradients}) *block = carver.Take(kBlock);
    for (BFloat16** panel : {&probabilities, &dscores}) {
      *panel = TakeNumbers(carver, kPanel * sizes.rows);
    }
    dscore_columns = TakeNumbers(carver, sizes.keys * sizes.rows);
    dqueries = carver.Take(RoundUp(summed_rows, kPanel) * sizes.padded);
    floats = carver.FloatsFrom(memory);
  }
};

// From the first to the last panel added. Neither end of what rows see falls from row to row, so
// that all between are added too.
struct PanelRange {
  int64_t begin = kMostPanels, end = 0;
  bool any() const { return begin < end; }
  void Add(int64_t panel) {
    begin = std::min(begin, panel);
    end = std::max(end, panel + 1);
  }
};

// All of one key/value head of one sequence: tiles of keys outside, tiles of rows inside.
class BackwardGroup {
 public:
  BackwardGroup(const AttentionBackwardProblem<BFloat16>& problem, int64_t sequence,
                int64_t kv_head, float* memory)
      : problem_(problem),
        size_(problem.head_size),
        sizes_(size_),
        group_(problem.heads / problem.kv_heads),
        all_rows_(problem.rows * group_),
        rule_(problem.scores, size_),
        scratch_(sizes_, all_rows_, memory),
        sequence_(sequence),
        kv_head_(kv_head) {}

  void Run() {
    ZeroRow(scratch_.dqueries, 0, RoundUp(all_rows_, kPanel) * sizes_.padded);
    for (key_ = 0; key_ < problem_.keys; key_ += sizes_.keys) {
      keys_ = std::min(sizes_.keys, problem_.keys - key_);
      PackKeysAndValues();
      const int64_t sees = std::max<int64_t>(0, key_ - problem_.offset);  // the first row that does
      for (first_ = sees * group_ / sizes_.rows * sizes_.rows; first_ < all_rows_;
           first_ += sizes_.rows) {
        rows_ = std::min(sizes_.rows, all_rows_ - first_);
        const int64_t first_key =
            problem_.sight.FirstKey(sequence_, Position(0), Position(rows_ - 1) + 1);
        if (first_key < key_ + keys_) RowTile();
      }
      WriteKeysAndValues();
    }
    for (first_ = 0; first_ < all_rows_; first_ += kPanel) WriteQueries();
  }

 private:
  int64_t Position(int64_t row) const { return (first_ + row) / group_; }
  int64_t Head(int64_t row) const { return kv_head_ * group_ + (first_ + row) % group_; }
  // Offsets of an element 0 in q and dq, in k, v, dk and dv, in dout, in lse and delta.
  int64_t QueryAt(int64_t row) const {
    return sequence_ * problem_.q_batch + Position(row) * problem_.q_row + Head(row) * size_;
  }
  int64_t KeyAt(int64_t key) const {
    return sequence_ * problem_.kv_batch + key * problem_.kv_row + kv_head_ * size_;
  }
  int64_t OutAt(int64_t row) const {
    return sequence_ * problem_.out_batch + (Position(row) * problem_.heads + Head(row)) * size_;
  }
  int64_t LseAt(int64_t row) const {
    return (sequence_ * problem_.heads + Head(row)) * problem_.lse_rows + Position(row);
  }

  void PackKeysAndValues() {
    const BFloat16 *k = problem_.k + KeyAt(key_), *v = problem_.v + KeyAt(key_);
    PackPanelsOfA(keys_, size_, k, problem_.kv_row, true, scratch_.keys);
    PackPanelsOfA(keys_, size_, v, problem_.kv_row, true, scratch_.values);
    PackPanelsOfA(size_, keys_, k, problem_.kv_row, false, scratch_.keys_transposed);
    ZeroRow(scratch_.dkeys, 0, sizes_.keys * sizes_.padded);
    ZeroRow(scratch_.dvalues, 0, sizes_.keys * sizes_.padded);
  }

  void PackRows() {
    const int64_t padded = sizes_.padded;
    const auto pack = [&](auto from, BFloat16* over_size, BFloat16* over_rows) {
      for (int64_t row = 0; row < rows_; ++row) {
        CopyRow(size_, padded, from(row), scratch_.rows + row * padded, kPanel);
      }
      PackPanelsOfB(rows_, size_, scratch_.rows, padded, true, over_size);
      PackPanelsOfB(size_, rows_, scratch_.rows, padded, false, over_rows);
    };
    pack([&](int64_t row) { return problem_.q + QueryAt(row); }, scratch_.queries,
         scratch_.query_pairs);
    pack([&](int64_t row) { return problem_.dout + OutAt(row); }, scratch_.douts,
         scratch_.dout_pairs);
    for (int64_t row = 0; row < RoundUp(rows_, kPanel); ++row) {
      const bool there = row < rows_;
      scratch_.lse[row] = there ? problem_.lse[LseAt(row)] * kLog2E : 0;
      scratch_.delta[row] = there ? problem_.delta[LseAt(row)] : 0;
      if (!there) {
        scratch_.visible.SetNone(row);
        continue;
      }
      scratch_.visible.first[row] =
          static_cast<int32_t>(problem_.sight.FirstKey(sequence_, Position(row)));
      scratch_.visible.last[row] =
          static_cast<int32_t>(std::min(problem_.offset + Position(row), problem_.keys - 1));
    }
    for (int64_t p = 0; p < CeilDiv(rows_, kPanel); ++p) {
      sights_[p] = PanelSight(scratch_.visible, p * kPanel);
    }
  }

  void RowTile() {
    PackRows();
    const int64_t row_panels = CeilDiv(rows_, kPanel), padded_keys = RoundUp(keys_, kPanel);
    PanelRange seen[kMostPanels];  // panels of keys that a panel of rows sees
    for (int64_t k = 0; k < keys_; k += kPanel) {
      Prefetch(k);
      PanelRange sees;  // panels of rows that see these keys
      for (int64_t p = 0; p < row_panels; ++p) {
        if (!sights_[p].Any(key_ + k)) continue;
        sees.Add(p);
        seen[p].Add(k / kPanel);
        ScoreBlock(k, p);
      }
      if (sees.any()) AddToKeys(k, sees);
    }
    for (int64_t p = 0; p < row_panels; ++p) {
      if (!seen[p].any()) continue;
      const int64_t from = seen[p].begin * kBlock, depth = (seen[p].end - seen[p].begin) * kPanel;
      for (int64_t d = 0; d < size_; d += kPanel) {
        Multiply(depth, scratch_.keys_transposed + d * padded_keys + from,
                 DScoreColumns(0, p) + from,
                 scratch_.dqueries + (first_ + p * kPanel) * sizes_.padded + d * kPanel, true, {});
      }
    }
  }

  // dV += P^T dO and dK += dS^T Q of the keys from k on, over the rows that see some.
  void AddToKeys(int64_t k, const PanelRange& sees) const {
    const int64_t from = sees.begin * kBlock, depth = (sees.end - sees.begin) * kPanel;
    const int64_t padded_rows = RoundUp(rows_, kPanel);
    for (int64_t d = 0; d < size_; d += kPanel) {
      const int64_t sums = k * sizes_.padded + d * kPanel, columns = d * padded_rows + from;
      Multiply(depth, scratch_.probabilities + from, scratch_.dout_pairs + columns,
               scratch_.dvalues + sums, true, {});
      Multiply(depth, scratch_.dscores + from, scratch_.query_pairs + columns,
               scratch_.dkeys + sums, true, {});
    }
  }

  // Of a panel of rows, the block of the keys from k on.
  BFloat16* DScoreColumns(int64_t k, int64_t row_panel) const {
    return scratch_.dscore_columns + row_panel * sizes_.keys * kPanel + k * kPanel;
  }

  // P = exp(S - lse), dS = P * (dP - delta) of the keys from k on and a panel of rows.
  void ScoreBlock(int64_t k, int64_t row_panel) const {
    const int64_t keys = k * sizes_.padded, rows = row_panel * kPanel * sizes_.padded;
    Multiply(size_, scratch_.keys + keys, scratch_.queries + rows, scratch_.scores, false, {});
    Multiply(size_, scratch_.values + keys, scratch_.douts + rows, scratch_.gradients, false, {});
    if (sights_[row_panel].All(key_ + k)) {
      rule_.softcap > 0 ? Weigh<true, true>(k, row_panel) : Weigh<false, true>(k, row_panel);
    } else {
      rule_.softcap > 0 ? Weigh<true, false>(k, row_panel) : Weigh<false, false>(k, row_panel);
    }
  }

  struct Weighed {
    Vec probability, dscore;
  };

  static __m256i LeftHalf(__m512i v) { return _mm512_castsi512_si256(v); }
  static __m256i RightHalf(__m512i v) { return _mm512_extracti32x8_epi32(v, 1); }
  // Two rows of sixteen numbers as a row of pairs.
  static __m512i Pairs(__m256i even, __m256i odd) {
    return _mm512_or_si512(_mm512_cvtepu16_epi32(even),
                           _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
  }

  template <bool kCapped, bool kAll>
  void Weigh(int64_t k, int64_t row_panel) const {
    const int64_t row = row_panel * kPanel;
    const Vec factor = simd::Set(rule_.query_factor), cap = simd::Set(rule_.cap());
    const Vec lse[2] = {simd::Load(scratch_.lse + row), simd::Load(scratch_.lse + row + kHalf)};
    const Vec delta[2] = {simd::Load(scratch_.delta + row),
                          simd::Load(scratch_.delta + row + kHalf)};
    BFloat16* probabilities = scratch_.probabilities + row_panel * kBlock;
    BFloat16* dscores = scratch_.dscores + row_panel * kBlock;
    BFloat16* columns = DScoreColumns(k, row_panel);
    const auto weigh = [&](int64_t i, int64_t half) {
      const Vec score = simd::Load(scratch_.scores + InBlock(i, half));
      const Vec gradient = simd::Load(scratch_.gradients + InBlock(i, half));
      Weighed of;
      if constexpr (kCapped) {
        // The derivative of a capped score by its score is 1 - tanh^2.
        const Vec tanh = simd::Tanh(simd::Mul(score, factor));
        of.probability = Exp2OfTile(simd::MulSub(tanh, cap, lse[half]));
        of.dscore = simd::Mul(simd::Mul(of.probability, simd::Sub(gradient, delta[half])),
                              simd::NegMulAdd(tanh, tanh, simd::Set(1.0F)));
      } else {
        of.probability = Exp2OfTile(simd::MulSub(score, factor, lse[half]));
        of.dscore = simd::Mul(of.probability, simd::Sub(gradient, delta[half]));
      }
      if constexpr (!kAll) {
        const __m512i key = _mm512_set1_epi32(static_cast<int32_t>(key_ + k + i));
        const int64_t at = row + half * kHalf;
        const __mmask16 seen =
            _mm512_cmple_epi32_mask(_mm512_loadu_si512(scratch_.visible.first + at), key) &
            _mm512_cmpge_epi32_mask(_mm512_loadu_si512(scratch_.visible.last + at), key);
        of.probability = simd::KeepWhere(seen, of.probability);
        of.dscore = simd::KeepWhere(seen, of.dscore);
      }
      return of;
    };
    for (int64_t i = 0; i < kPanel; i += 2) {
      __m512i pair[2];
      for (int64_t odd = 0; odd < 2; ++odd) {
        const Weighed left = weigh(i + odd, 0), right = weigh(i + odd, 1);
        const int64_t at = (i + odd) * kPanel;
        pair[odd] = Narrowed(left.dscore, right.dscore);
        _mm512_storeu_si512(probabilities + at, Narrowed(left.probability, right.probability));
        _mm512_storeu_si512(dscores + at, pair[odd]);
      }
      const __m512i left = Pairs(LeftHalf(pair[0]), LeftHalf(pair[1]));
      const __m512i right = Pairs(RightHalf(pair[0]), RightHalf(pair[1]));
      _mm512_storeu_si512(columns + i / 2 * kPanel, left);
      _mm512_storeu_si512(columns + kBlock / 2 + i / 2 * kPanel, right);
    }
  }

  // Rows of the next tile: as great a part as a panel is of the keys.
  void Prefetch(int64_t k) const {
    const int64_t row = sizes_.rows + k * sizes_.rows / sizes_.keys;
    const int64_t count = kPanel * sizes_.rows / sizes_.keys;
    for (int64_t i = row; i < std::min(row + count, all_rows_ - first_); ++i) {
      PrefetchRow(size_, problem_.q + QueryAt(i));
      PrefetchRow(size_, problem_.dout + OutAt(i));
    }
  }

  // to[0, 16), as far as the head has them from d on, (+)= factor * value.
  void WriteNumbers(int64_t d, Vec value, float factor, bool adds, BFloat16* to) const {
    if (d >= size_) return;
    const simd::Tail lanes(std::min(kHalf, size_ - d));
    value = simd::Mul(value, simd::Set(factor));
    if (adds) value = simd::Add(value, lanes.Load(to + d));
    lanes.Store(to + d, value);
  }

  void WriteKeysAndValues() const {
    for (int64_t i = 0; i < keys_; ++i) {
      const int64_t at = KeyAt(key_ + i);
      const int64_t soon = KeyAt(std::min(key_ + i + kHalf, problem_.keys - 1));
      PrefetchRow(size_, problem_.dk + soon);
      PrefetchRow(size_, problem_.dv + soon);
      for (int64_t d = 0; d < sizes_.padded; d += kHalf) {
        const int64_t from = i / kPanel * kPanel * sizes_.padded + d / kPanel * kBlock +
                             InBlock(i % kPanel, d / kHalf % 2);
        WriteNumbers(d, simd::Load(scratch_.dkeys + from), rule_.scale, problem_.adds_dkv,
                     problem_.dk + at);
        WriteNumbers(d, simd::Load(scratch_.dvalues + from), 1, problem_.adds_dkv,
                     problem_.dv + at);
      }
    }
  }

  // A panel of rows.
  void WriteQueries() const {
    const float* panel = scratch_.dqueries + first_ * sizes_.padded;
    for (int64_t i = kPanel; i < std::min(2 * kPanel, all_rows_ - first_); ++i) {
      PrefetchRow(size_, problem_.dq + QueryAt(i));
    }
    for (int64_t d = 0; d < sizes_.padded; d += kHalf) {
      for (int64_t half = 0; half < 2; ++half) {
        const float* from = panel + d / kPanel * kBlock + InBlock(d % kPanel, half);
        Rows columns;
        for (int64_t i = 0; i < kHalf; ++i) columns[i] = _mm512_loadu_si512(from + i * kHalf);
        const Rows rows = Transposed(columns);
        const int64_t first = half * kHalf, count = all_rows_ - first_ - first;
        for (int64_t i = 0; i < std::min(kHalf, count); ++i) {
          WriteNumbers(d, simd::AsFloats(rows[i]), rule_.scale, problem_.adds_dq,
                       problem_.dq + QueryAt(first + i));
        }
      }
    }
  }

  const AttentionBackwardProblem<BFloat16>& problem_;
  const int64_t size_;
  const TileSizes sizes_;
  const int64_t group_, all_rows_;
  const ScoreRule rule_;
  const Scratch scratch_;
  const int64_t sequence_, kv_head_;
  // The tiles at hand: keys [key_, key_ + keys_), and rows_ rows of the group from first_ on.
  int64_t key_ = 0, keys_ = 0, first_ = 0, rows_ = 0;
  PanelSight sights_[kMostPanels];
};

}  // namespace

int64_t AttentionBackwardFloats(int64_t head_size, int64_t rows) {
  return Scratch(TileSizes(head_size), rows, nullptr).floats;
}

void AttentionBackward(const Context& context, const AttentionBackwardProblem<BFloat16>& problem,
                       float* workspace) {
  const int64_t rows = problem.rows * (problem.heads / problem.kv_heads);
  const int64_t floats = AttentionBackwardFloats(problem.head_size, rows);
  context.pool->ParallelFor(problem.batch * problem.kv_heads, [&](int64_t task, int thread) {
    const TileScope shapes;
    BackwardGroup(problem, task / problem.kv_heads, task % problem.kv_heads,
                  workspace + thread * floats)
        .Run();
  });
}

}  // namespace strata::kernels::avx512::amx
