#include "kernels/cpu/attention_forward.h"

#include <cmath>
#include <limits>

#include "kernels/attention.h"
#include "kernels/cpu/attention_scores.h"
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/functions.h"
#include "kernels/cpu/packing.h"

namespace strata::kernels::STRATA_ISA {
namespace {

using simd::Vec;

constexpr float kLowest = -std::numeric_limits<float>::infinity();
// Of a row that has seen no key. Not infinite: rows of other documents leave it as it is, and the
// difference of two infinities is no number.
constexpr float kNoneSeen = std::numeric_limits<float>::lowest();

// How long tiles are for heads of some size: all of a task's fit a second-level cache.
struct TileSizes {
  int64_t padded;  // of a head
  int64_t rows;    // of queries: many per packing of the keys and values
  int64_t keys;
  int64_t padded_keys;  // to whole panels

  explicit TileSizes(int64_t head_size)
      : padded(PaddedHeadSize(head_size)),
        rows(padded <= 64 ? 192 : 96),
        keys(padded <= 128 ? kKeys : kKeys / 2),
        padded_keys(RoundUp(keys, kTileColumns)) {}
};

struct Scratch {
  float* keys;         // [kKeys / columns][D][columns]: transposed, columns of a panel
  float* values;       // [Dp / columns][keys of the tile][columns]
  float* queries;      // [rows, Dp], times the rule's factor
  float* out;          // [rows, Dp], not yet divided by the sums
  float* max;          // [rows], in units of ln 2
  float* sum;          // [rows]
  int32_t* positions;  // [rows]: the row's place in the tile
  int32_t* first_keys;
  float* scores;  // [kBlockRows, kKeys]
  int64_t floats;

  Scratch(const QueryTiling& tiling, const TileSizes& sizes, float* memory) {
    Carver carver(memory);
    const int64_t rows = RoundUp(tiling.rows, kBlockRows);
    keys = carver.Take(sizes.padded * sizes.padded_keys);
    values = carver.Take(sizes.padded * sizes.padded_keys);
    queries = carver.Take(rows * sizes.padded);
    out = carver.Take(rows * sizes.padded);
    max = carver.Take(rows + 8);
    sum = carver.Take(rows + 8);
    positions = reinterpret_cast<int32_t*>(carver.Take(rows));
    first_keys = reinterpret_cast<int32_t*>(carver.Take(rows));
    scores = carver.Take(kBlockRows * kKeys);
    floats = carver.FloatsFrom(memory);
  }
};

// A panel's rows, a vector each.
using RowLanes = Vec[8];
static_assert(kTileRows <= 8 && kTileRows <= simd::kLanes);

Vec MaxOfLanes(int64_t count, const float* scores) {
  Vec highest = simd::Set(kLowest);
  simd::ForEachVec(count, [&](int64_t i, auto lanes) {
    highest = simd::Max(lanes.LoadOr(scores + i, highest), highest);
  });
  return highest;
}

// Scores become exponentials of their distance to `max`; their sums.
Vec ExponentialsOfLanes(int64_t count, float max, float* scores) {
  const Vec shift = simd::Set(max);
  Vec sum = simd::Zero();
  simd::ForEachVec(count, [&](int64_t i, auto lanes) {
    const Vec score = simd::Sub(lanes.LoadOr(scores + i, simd::Set(kLowest)), shift);
    const Vec value = Exp2(score);
    lanes.Store(scores + i, value);
    sum = simd::Add(sum, value);
  });
  return sum;
}

void CapRow(int64_t valid, float cap, float* scores) {
  simd::ForEachVec(valid, [=](int64_t i, auto lanes) {
    lanes.Store(scores + i, simd::Mul(simd::Tanh(lanes.Load(scores + i)), simd::Set(cap)));
  });
}

// One query tile of one group.
template <typename T>
class ForwardTile {
 public:
  ForwardTile(const AttentionProblem<T>& problem, int64_t sequence, int64_t kv_head,
              int64_t first_position, float* memory)
      : problem_(problem),
        sizes_(problem.head_size),
        tiling_(problem.heads, problem.kv_heads, sizes_.rows),
        rule_(problem.scores, problem.head_size),
        scratch_(tiling_, sizes_, memory),
        sequence_(sequence),
        kv_head_(kv_head),
        first_(first_position),
        rows_(std::min(tiling_.positions, problem.rows - first_position) * tiling_.group) {}

  void Run() {
    const int64_t last =
        std::min(problem_.offset + first_ + (rows_ - 1) / tiling_.group, problem_.keys - 1);
    const int64_t begin =
        problem_.sight.FirstKey(sequence_, first_, first_ + (rows_ - 1) / tiling_.group + 1);
    if (problem_.resumes && begin > last) return;  // what stands there stays
    PackQueries();
    for (int64_t key = begin; key <= last; key += sizes_.keys) {
      const int64_t keys = std::min(sizes_.keys, last + 1 - key);
      PackB(keys, problem_.head_size, problem_.k + KeyAt(key), problem_.kv_row, true,
            scratch_.keys);
      PackB(problem_.head_size, keys, problem_.v + KeyAt(key), problem_.kv_row, false,
            scratch_.values);
      for (int64_t row = 0; row < rows_; row += kBlockRows) {
        Prefetch(key + sizes_.keys + row, std::min(last + 1, key + sizes_.keys + row + kBlockRows));
        Block(row, key, keys);
      }
    }
    for (int64_t row = 0; row < rows_; ++row) Finish(row);
  }

 private:
  // Six rows, and the columns of scores that any of them sees, from a whole micro kernel on.
  struct Panel {
    int64_t row, from, to;
    bool goes_on;  // some were seen in earlier tiles
    bool any() const { return to > from; }
  };

  int64_t Head(int64_t row) const { return kv_head_ * tiling_.group + row % tiling_.group; }

  void PackQueries() {
    const int64_t size = problem_.head_size, padded = sizes_.padded;
    for (int64_t row = 0; row < RoundUp(rows_, kTileRows); ++row) {
      float* to = scratch_.queries + row * padded;
      scratch_.max[row] = kNoneSeen;
      scratch_.sum[row] = 0;
      const int64_t position = std::min(row, rows_ - 1) / tiling_.group;
      scratch_.positions[row] = static_cast<int32_t>(position);
      scratch_.first_keys[row] =
          static_cast<int32_t>(problem_.sight.FirstKey(sequence_, first_ + position));
      if (problem_.resumes) Resume(row);
      if (row >= rows_) {
        ZeroRow(to, 0, padded);
        continue;
      }
      const T* from = problem_.q + sequence_ * problem_.q_batch +
                      (first_ + position) * problem_.q_row + Head(row) * size;
      PackRow(size, padded, rule_.query_factor, from, to);
    }
  }

  void Resume(int64_t row) {
    float* out = scratch_.out + row * sizes_.padded;
    if (row >= rows_) return ZeroRow(out, 0, sizes_.padded);
    PackRow(problem_.head_size, sizes_.padded, 1.0f, problem_.out + OutAt(row), out);
    scratch_.max[row] = problem_.lse[LseAt(row)] * kLog2E;
    scratch_.sum[row] = 1;
  }

  int64_t OutAt(int64_t row) const {
    return sequence_ * problem_.out_batch +
           ((first_ + scratch_.positions[row]) * problem_.heads + Head(row)) * problem_.head_size;
  }
  int64_t LseAt(int64_t row) const {
    return (sequence_ * problem_.heads + Head(row)) * problem_.lse_rows + first_ +
           scratch_.positions[row];
  }

  int64_t KeyAt(int64_t position) const {
    return sequence_ * problem_.kv_batch + position * problem_.kv_row +
           kv_head_ * problem_.head_size;
  }

  void Prefetch(int64_t begin, int64_t end) const {
    for (int64_t key = begin; key < end; ++key) {
      PrefetchRow(problem_.head_size, problem_.k + KeyAt(key));
      PrefetchRow(problem_.head_size, problem_.v + KeyAt(key));
    }
  }

  Panel PanelOf(int64_t row, int64_t key, int64_t keys) const {
    const int64_t last = std::min(row + kTileRows, rows_) - 1;
    int64_t first_key = scratch_.first_keys[row];
    for (int64_t i = row + 1; i <= last; ++i) {
      first_key = std::min<int64_t>(first_key, scratch_.first_keys[i]);
    }
    return {.row = row,
            .from = std::max<int64_t>(0, first_key - key) / kTileColumns * kTileColumns,
            .to = std::min(keys, problem_.offset + first_ + scratch_.positions[last] - key + 1),
            .goes_on = key > first_key || problem_.resumes};
  }

  // A block of rows against the key tile [key, key + keys).
  void Block(int64_t row, int64_t key, int64_t keys) {
    Panel panels[kBlockPanels];
    int64_t count = 0;
    for (int64_t end = std::min(row + kBlockRows, rows_); row < end; row += kTileRows) {
      panels[count] = PanelOf(row, key, keys);
      if (panels[count].any()) ++count;
    }
    const int64_t size = problem_.head_size, padded = sizes_.padded;
    for (int64_t column = 0; column < keys; column += kTileColumns) {
      for (int64_t p = 0; p < count; ++p) {
        if (column < panels[p].from || column >= panels[p].to) continue;
        MicroKernel(size, scratch_.queries + panels[p].row * padded, padded, 1,
                    scratch_.keys + column * size, kTileColumns, ScoresOf(p) + column, kKeys,
                    false);
      }
    }
    for (int64_t p = 0; p < count; ++p) Weigh(panels[p], key, ScoresOf(p));
    for (int64_t d = 0; d < padded; d += kTileColumns) {
      for (int64_t p = 0; p < count; ++p) {
        const int64_t from = panels[p].from;
        MicroKernel(panels[p].to - from, ScoresOf(p) + from, kKeys, 1,
                    scratch_.values + d * keys + from * kTileColumns, kTileColumns,
                    scratch_.out + panels[p].row * padded + d, padded, panels[p].goes_on);
      }
    }
  }

  float* ScoresOf(int64_t panel) const { return scratch_.scores + panel * kTileRows * kKeys; }

  // Scores of a panel become exponentials, zeros where a row does not see; what was summed before,
  // relative to the new maxima. Six rows at a time: one alone would wait for itself.
  void Weigh(const Panel& panel, int64_t key, float* scores) {
    int64_t first[kTileRows], count[kTileRows];
    RowLanes rows = {};
    for (int64_t i = 0; i < kTileRows; ++i) {
      float* of_row = scores + i * kKeys;
      const int64_t row = panel.row + i;
      const int64_t visible = problem_.offset + first_ + scratch_.positions[row] - key + 1;
      first[i] = std::clamp<int64_t>(scratch_.first_keys[row] - key, panel.from, panel.to);
      const int64_t end = row < rows_ ? std::clamp(visible, first[i], panel.to) : first[i];
      count[i] = end - first[i];
      ZeroRow(of_row, panel.from, first[i]);
      ZeroRow(of_row, end, panel.to);
      if (rule_.softcap > 0) CapRow(count[i], rule_.cap(), of_row + first[i]);
      rows[i] = MaxOfLanes(count[i], of_row + first[i]);
    }
    const simd::Tail six(kTileRows);
    float max[simd::kLanes];
    const Vec max_before = six.Load(scratch_.max + panel.row);
    const Vec max_after = simd::Max(simd::MaxOfEach(rows), max_before);
    simd::Store(max, max_after);
    for (int64_t i = 0; i < kTileRows; ++i) {
      rows[i] = ExponentialsOfLanes(count[i], max[i], scores + i * kKeys + first[i]);
    }
    for (int64_t i = kTileRows; i < 8; ++i) rows[i] = simd::Zero();
    const Vec correction = Exp2(simd::Sub(max_before, max_after));
    const Vec sum_before = six.Load(scratch_.sum + panel.row);
    const Vec sum = simd::MulAdd(sum_before, correction, simd::SumOfEach(rows));
    six.Store(scratch_.max + panel.row, max_after);
    six.Store(scratch_.sum + panel.row, sum);
    const int grown = simd::Bits(simd::Differs(max_before, max_after));
    if (panel.goes_on) Rescale(panel.row, grown, correction);
  }

  // Rows of `grown`, a bit each.
  void Rescale(int64_t row, int grown, Vec correction) const {
    float factors[simd::kLanes];
    simd::Store(factors, correction);
    for (int64_t i = 0; i < kTileRows; ++i) {
      if ((grown >> i & 1) == 0) continue;
      float* to = scratch_.out + (row + i) * sizes_.padded;
      for (int64_t d = 0; d < sizes_.padded; d += simd::kLanes) {
        simd::Store(to + d, simd::Mul(simd::Load(to + d), simd::Set(factors[i])));
      }
    }
  }

  void Finish(int64_t row) {
    const float* from = scratch_.out + row * sizes_.padded;
    T* to = problem_.out + OutAt(row);
    const Vec factor = simd::Set(1 / scratch_.sum[row]);
    simd::ForEachVec(problem_.head_size, [=](int64_t i, auto lanes) {
      lanes.Store(to + i, simd::Mul(lanes.Load(from + i), factor));
    });
    if (problem_.lse != nullptr) {
      problem_.lse[LseAt(row)] = scratch_.max[row] * kLn2 + std::log(scratch_.sum[row]);
    }
  }

  const AttentionProblem<T>& problem_;
  const TileSizes sizes_;
  const QueryTiling tiling_;
  const ScoreRule rule_;
  const Scratch scratch_;
  const int64_t sequence_, kv_head_, first_, rows_;
};

}  // namespace

int64_t AttentionForwardLanesFloats(int64_t heads, int64_t kv_heads, int64_t head_size) {
  const TileSizes sizes(head_size);
  return Scratch(QueryTiling(heads, kv_heads, sizes.rows), sizes, nullptr).floats;
}

template <typename T>
void AttentionForwardByLanes(const Context& context, const AttentionProblem<T>& problem,
                             float* workspace) {
  const QueryTiling tiling(problem.heads, problem.kv_heads, TileSizes(problem.head_size).rows);
  const int64_t tiles = CeilDiv(problem.rows, tiling.positions);
  const int64_t groups = problem.batch * problem.kv_heads;
  const int64_t floats =
      AttentionForwardLanesFloats(problem.heads, problem.kv_heads, problem.head_size);
  context.pool->ParallelFor(tiles * groups, [&](int64_t task, int thread) {
    // Tasks that follow each other share keys and values; the tile that sees most of them is first.
    const int64_t tile = tiles - 1 - task % tiles;
    const int64_t group = task / tiles;
    ForwardTile<T>(problem, group / problem.kv_heads, group % problem.kv_heads,
                   tile * tiling.positions, workspace + thread * floats)
        .Run();
  });
}

}  // namespace strata::kernels::STRATA_ISA

namespace strata::kernels {

STRATA_PLAIN_KERNEL(int64_t, AttentionForwardLanesFloats, int64_t, int64_t, int64_t)
STRATA_KERNEL(void, AttentionForwardByLanes, const Context&, const AttentionProblem<T>&, float*)

}  // namespace strata::kernels
