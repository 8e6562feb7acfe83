#include <cmath>

#include "kernels/cpu/attention_amx.h"
#include "kernels/cpu/attention_amx_tile.h"
#include "kernels/cpu/attention_scores.h"
#include "kernels/cpu/functions.h"

namespace strata::kernels::avx512::amx {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();
// Of a row that has seen no key: the difference of two infinities is no number.
constexpr float kNoneSeen = std::numeric_limits<float>::lowest();
constexpr int64_t kRowsAtOnce = 8;  // whose maxima and sums are taken together

struct TileSizes {
  int64_t padded;  // of a head
  int64_t rows;    // many per packing of the keys and values
  int64_t keys;

  explicit TileSizes(int64_t head_size)
      : padded(RoundUp(head_size, kPanel)),
        rows(padded <= 64 ? 192 : 128),
        keys(padded <= 128 ? 128 : 64) {}
};
constexpr int64_t kMostRows = 192;

struct Scratch {
  BFloat16 *keys, *values;  // panels of columns: of keys over D, of D over keys
  BFloat16* queries;        // panels of rows
  float* out;               // [rows / 32][Dp / 32] blocks, not yet divided by the sums
  float *max, *sum;         // [rows], maxima in units of ln 2
  Visible visible;
  float* scores;            // [keys / 32] blocks of a panel of rows
  BFloat16* probabilities;  // a panel of rows over keys
  int64_t floats;

  Scratch(const TileSizes& sizes, float* memory) {
    Carver carver(memory);
    keys = TakeNumbers(carver, sizes.keys * sizes.padded);
    values = TakeNumbers(carver, sizes.keys * sizes.padded);
    queries = TakeNumbers(carver, sizes.rows * sizes.padded);
    out = carver.Take(sizes.rows * sizes.padded);
    max = carver.Take(sizes.rows);
    sum = carver.Take(sizes.rows);
    visible.first = reinterpret_cast<int32_t*>(carver.Take(sizes.rows));
    visible.last = reinterpret_cast<int32_t*>(carver.Take(sizes.rows));
    scores = carver.Take(kPanel * sizes.keys);
    probabilities = TakeNumbers(carver, kPanel * sizes.keys);
    floats = carver.FloatsFrom(memory);
  }
};

// Some consecutive rows of a group.
class ForwardTile {
 public:
  ForwardTile(const AttentionProblem<BFloat16>& problem, int64_t sequence, int64_t kv_head,
              int64_t first_row, float* memory)
      : problem_(problem),
        size_(problem.head_size),
        sizes_(size_),
        group_(problem.heads / problem.kv_heads),
        rule_(problem.scores, size_),
        factor_(rule_.softcap > 0 ? 1 : rule_.query_factor),
        scratch_(sizes_, memory),
        sequence_(sequence),
        kv_head_(kv_head),
        first_(first_row),
        rows_(std::min(sizes_.rows, problem.rows * group_ - first_row)) {}

  void Run() {
    const int64_t last = LastKey(rows_ - 1);
    const int64_t begin = problem_.sight.FirstKey(sequence_, Position(0), Position(rows_ - 1) + 1);
    if (problem_.resumes && begin > last) return;  // what stands there stays
    PackQueries();
    for (int64_t key = begin; key <= last; key += sizes_.keys) {
      const int64_t keys = std::min(sizes_.keys, last + 1 - key);
      PackPanelsOfB(keys, size_, problem_.k + KeyAt(key), problem_.kv_row, true, scratch_.keys);
      PackPanelsOfB(size_, keys, problem_.v + KeyAt(key), problem_.kv_row, false, scratch_.values);
      for (int64_t row = 0; row < rows_; row += kPanel) {
        Prefetch(key + sizes_.keys + row, std::min(last + 1, key + sizes_.keys + row + kPanel));
        RowPanel(row, key, keys);
      }
    }
    for (int64_t row = 0; row < rows_; ++row) Finish(row);
  }

 private:
  int64_t Position(int64_t row) const { return (first_ + row) / group_; }
  int64_t Head(int64_t row) const { return kv_head_ * group_ + (first_ + row) % group_; }
  int64_t LastKey(int64_t row) const {
    return std::min(problem_.offset + Position(row), problem_.keys - 1);
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
  // Of a row, its numbers [d, d + 16) of what is summed; d is a multiple of sixteen.
  float* Sums(int64_t row, int64_t d) const {
    const int64_t block = row / kPanel * (sizes_.padded / kPanel) + d / kPanel;
    return scratch_.out + block * kBlock + InBlock(row % kPanel, d / kHalf % 2);
  }

  void PackQueries() {
    const int64_t depths = sizes_.padded / kPanel;
    for (int64_t row = 0; row < RoundUp(rows_, kPanel); ++row) {
      scratch_.max[row] = kNoneSeen;
      scratch_.sum[row] = 0;
      // Rows that fill up a panel are like the last one, and not written.
      const int64_t like = std::min(row, rows_ - 1);
      scratch_.visible.first[row] =
          static_cast<int32_t>(problem_.sight.FirstKey(sequence_, Position(like)));
      scratch_.visible.last[row] = static_cast<int32_t>(LastKey(like));
      const BFloat16* from = problem_.q + sequence_ * problem_.q_batch +
                             Position(like) * problem_.q_row + Head(like) * size_;
      CopyRow(size_, sizes_.padded, from,
              scratch_.queries + row / kPanel * depths * kBlock + row % kPanel * kPanel, kBlock);
      if (problem_.resumes) Resume(row, like);
    }
    for (bool& begun : begun_) begun = problem_.resumes;
  }

  void Resume(int64_t row, int64_t like) {
    const BFloat16* from = problem_.out + OutAt(like);
    for (int64_t d = 0; d < sizes_.padded; d += kHalf) {
      const simd::Tail lanes(std::clamp<int64_t>(size_ - d, 0, kHalf));
      simd::Store(Sums(row, d), lanes.Load(from + d));
    }
    scratch_.max[row] = problem_.lse[LseAt(like)] * kLog2E;
    scratch_.sum[row] = 1;
  }

  void Prefetch(int64_t begin, int64_t end) const {
    for (int64_t key = begin; key < end; ++key) {
      PrefetchRow(size_, problem_.k + KeyAt(key));
      PrefetchRow(size_, problem_.v + KeyAt(key));
    }
  }

  // 32 rows against the keys [key, key + keys).
  void RowPanel(int64_t row, int64_t key, int64_t keys) {
    const PanelSight sight(scratch_.visible, row);
    const int64_t from = std::max<int64_t>(0, sight.any_first - key) / kPanel * kPanel;
    const int64_t to = RoundUp(std::min(keys, sight.any_last + 1 - key), kPanel);
    if (from >= to) return;
    const BFloat16* queries = scratch_.queries + row * sizes_.padded;
    for (int64_t k = from; k < to; k += kPanel) {
      float* scores = scratch_.scores + k * kPanel;
      Multiply(size_, queries, scratch_.keys + k * sizes_.padded, scores, false, {});
      if (rule_.softcap > 0) CapBlock(scores);
      if (!sight.All(key + k)) HideBlock(row, key + k, scores);
    }
    for (int64_t i = 0; i < kPanel; i += kRowsAtOnce) Weigh(row, i, from, to);
    const int64_t padded_keys = RoundUp(keys, kPanel);
    bool& begun = begun_[row / kPanel];
    for (int64_t d = 0; d < size_; d += kPanel) {
      Multiply(to - from, scratch_.probabilities + from * kPanel,
               scratch_.values + d * padded_keys + from * kPanel, Sums(row, d), begun, {});
    }
    begun = true;
  }

  void CapBlock(float* scores) const {
    const Vec cap = simd::Set(rule_.cap()), factor = simd::Set(rule_.query_factor);
    for (int64_t i = 0; i < kBlock; i += kHalf) {
      const Vec tanh = simd::Tanh(simd::Mul(simd::Load(scores + i), factor));
      simd::Store(scores + i, simd::Mul(tanh, cap));
    }
  }

  // Scores of keys that a row does not see.
  void HideBlock(int64_t row, int64_t key, float* scores) const {
    const Vec lowest = simd::Set(kLowest);
    for (int64_t i = 0; i < kPanel; ++i) {
      const int64_t first = scratch_.visible.first[row + i] - key;
      const int64_t end = scratch_.visible.last[row + i] + 1 - key;
      for (int64_t half = 0; half < 2; ++half) {
        const __mmask16 seen = LanesFrom(first - half * kHalf, end - half * kHalf);
        _mm512_mask_storeu_ps(scores + InBlock(i, half), _knot_mask16(seen), lowest);
      }
    }
  }

  // Scores [from, to) of rows [i, i + 8) of the panel become exponentials; what was summed before,
  // relative to the new maxima. The panel's rows begin at `row`.
  void Weigh(int64_t row, int64_t i, int64_t from, int64_t to) {
    static_assert(kRowsAtOnce == 8);
    const float* scores = scratch_.scores + InBlock(i, 0);
    constexpr int64_t kOther = kHalf * kHalf;  // to the right half
    Vec rows[kRowsAtOnce];
    for (Vec& of_row : rows) of_row = simd::Set(kLowest);
    for (int64_t k = from; k < to; k += kPanel) {
#pragma GCC unroll 8
      for (int64_t r = 0; r < kRowsAtOnce; ++r) {
        const float* at = scores + k * kPanel + r * kHalf;
        const Vec higher = simd::Max(simd::Load(at), rows[r]);
        rows[r] = simd::Max(simd::Load(at + kOther), higher);
      }
    }
    const simd::Tail eight(kRowsAtOnce);
    const Vec factor = simd::Set(factor_);
    float *max = scratch_.max + row + i, *sum = scratch_.sum + row + i;
    const Vec max_before = eight.Load(max);
    const Vec max_after = simd::Max(simd::Mul(simd::MaxOfEach(rows), factor), max_before);
    eight.Store(max, max_after);
    for (Vec& of_row : rows) of_row = simd::Zero();
    BFloat16* probabilities = scratch_.probabilities + i * kPanel;
    for (int64_t k = from; k < to; k += kPanel) {
#pragma GCC unroll 8
      for (int64_t r = 0; r < kRowsAtOnce; ++r) {
        const float* at = scores + k * kPanel + r * kHalf;
        const Vec shift = simd::Set(max[r]);
        const Vec left = Exp2OfTile(simd::MulSub(simd::Load(at), factor, shift));
        const Vec right = Exp2OfTile(simd::MulSub(simd::Load(at + kOther), factor, shift));
        rows[r] = simd::Add(rows[r], simd::Add(left, right));
        _mm512_storeu_si512(probabilities + k * kPanel + r * kPanel, Narrowed(left, right));
      }
    }
    const Vec correction = Exp2(simd::Sub(max_before, max_after));  // 1 where no maximum grew
    eight.Store(sum, simd::MulAdd(eight.Load(sum), correction, simd::SumOfEach(rows)));
    if (begun_[row / kPanel]) {
      Rescale(row + i, simd::Bits(simd::Differs(max_before, max_after)), correction);
    }
  }

  // Rows of `grown`, a bit each.
  void Rescale(int64_t row, int grown, Vec correction) const {
    float factors[simd::kLanes];
    simd::Store(factors, correction);
    for (int64_t r = 0; r < kRowsAtOnce; ++r) {
      if ((grown >> r & 1) == 0) continue;
      for (int64_t d = 0; d < sizes_.padded; d += kHalf) {
        float* to = Sums(row + r, d);
        simd::Store(to, simd::Mul(simd::Load(to), simd::Set(factors[r])));
      }
    }
  }

  void Finish(int64_t row) {
    BFloat16* to = problem_.out + OutAt(row);
    const Vec factor = simd::Set(1 / scratch_.sum[row]);
    simd::ForEachVec(size_, [=, this](int64_t d, auto lanes) {
      lanes.Store(to + d, simd::Mul(simd::Load(Sums(row, d)), factor));
    });
    if (problem_.lse != nullptr) {
      problem_.lse[LseAt(row)] = scratch_.max[row] * kLn2 + std::log(scratch_.sum[row]);
    }
  }

  const AttentionProblem<BFloat16>& problem_;
  const int64_t size_;
  const TileSizes sizes_;
  const int64_t group_;
  const ScoreRule rule_;
  const float factor_;  // from scores to units of ln 2
  const Scratch scratch_;
  const int64_t sequence_, kv_head_, first_, rows_;
  bool begun_[kMostRows / kPanel] = {};  // a panel's rows have sums
};

}  // namespace

int64_t AttentionForwardFloats(int64_t head_size) {
  return Scratch(TileSizes(head_size), nullptr).floats;
}

void AttentionForward(const Context& context, const AttentionProblem<BFloat16>& problem,
                      float* workspace) {
  const int64_t rows = TileSizes(problem.head_size).rows;
  const int64_t tiles = CeilDiv(problem.rows * (problem.heads / problem.kv_heads), rows);
  const int64_t groups = problem.batch * problem.kv_heads;
  const int64_t floats = AttentionForwardFloats(problem.head_size);
  context.pool->ParallelFor(tiles * groups, [&](int64_t task, int thread) {
    const TileScope shapes;
    // Tasks that follow each other share keys and values; the tile that sees most of them is first.
    const int64_t tile = tiles - 1 - task % tiles;
    const int64_t group = task / tiles;
    ForwardTile(problem, group / problem.kv_heads, group % problem.kv_heads, tile * rows,
                workspace + thread * floats)
        .Run();
  });
}

}  // namespace strata::kernels::avx512::amx
