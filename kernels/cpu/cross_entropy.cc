#include "kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/softcap.h"

namespace strata::kernels::STRATA_ISA {
namespace {

using simd::Vec;

constexpr float kLowest = -std::numeric_limits<float>::infinity();

// body(a cap's object).
template <typename Body>
void WithCap(float softcap, const Body& body) {
  if (softcap == 0) {
    body(simd::NoCap{});
  } else {
    body(simd::Cap(softcap));
  }
}

template <typename Cap>
constexpr bool kCaps = !std::is_same_v<Cap, simd::NoCap>;

// A single value, by the instructions that the lanes of a row go through.
template <typename Cap>
float Capped(Cap cap, float value) {
  return simd::First(cap.Value(simd::Set(value)));
}

// Of the capped logits: the cap keeps order.
template <typename Cap, typename T>
float RowMax(Cap cap, int64_t vocab, const T* x) {
  const Vec lowest = simd::Set(kLowest);
  Vec highest[4] = {lowest, lowest, lowest, lowest};
  simd::ForEachVec4(vocab, [&](int64_t i, int group, auto lanes) {
    highest[group] = simd::Max(lanes.LoadOr(x + i, lowest), highest[group]);
  });
  return Capped(cap, simd::Max(simd::Max(simd::Max(highest[0], highest[1]),
                                         simd::Max(highest[2], highest[3]))));
}

// Sum of exp(x - max) of capped logits. With kStore the exponentials are written to `to`.
template <bool kStore, typename Cap, typename T>
float RowExpSum(Cap cap, int64_t vocab, const T* x, float max, [[maybe_unused]] T* to) {
  const Vec shift = simd::Set(max), lowest = simd::Set(kLowest);
  Vec sums[4] = {simd::Zero(), simd::Zero(), simd::Zero(), simd::Zero()};
  simd::ForEachVec4(vocab, [&](int64_t i, int group, auto lanes) {
    const Vec value = lanes.Or(cap.Value(lanes.Load(x + i)), lowest);
    const Vec exp = simd::Exp(simd::Sub(value, shift));
    if constexpr (kStore) lanes.Store(to + i, exp);
    sums[group] = simd::Add(sums[group], exp);
  });
  return simd::Sum(Total(sums));
}

double RowLoss(float sum, float max, float target_logit) {
  return std::log(static_cast<double>(sum)) + (static_cast<double>(max) - target_logit);
}

// What a row's logits become: exp(logit - shift) * factor, less `scale` at the target, and where
// logits are capped times the cap's slope.
template <typename Cap>
struct Gradient {
  Cap cap;
  Vec shift, factor;

  Vec Of(Vec x, float less) const {
    const Vec value = cap.Value(x);
    const Vec share = simd::Mul(simd::Exp(simd::Sub(value, shift)), factor);
    const Vec towards_value = simd::Sub(share, simd::Set(less));
    if constexpr (kCaps<Cap>) {
      return simd::Mul(towards_value, cap.Slope(value));
    } else {
      return towards_value;
    }
  }
  // `target` outside the row: it is of another part.
  template <typename T>
  void Replace(int64_t columns, int64_t target, float scale, T* x) const {
    const bool inside = target >= 0 && target < columns;
    const float logit = inside ? ToFloat(x[target]) : 0;
    simd::ForEachVec(columns,
                     [&](int64_t i, auto lanes) { lanes.Store(x + i, Of(lanes.Load(x + i), 0)); });
    if (inside) x[target] = FromFloat<T>(simd::First(Of(simd::Set(logit), scale)));
  }
};

// One row: its loss, and the gradient in place.
template <typename Cap, typename T>
double GradientRow(Cap cap, int64_t vocab, float scale, int32_t target, T* x) {
  if (target < 0) {
    std::fill(x, x + vocab, T{});
    return 0;
  }
  const float target_logit = Capped(cap, ToFloat(x[target]));
  const float max = RowMax(cap, vocab, x);
  if constexpr (std::is_same_v<T, float> && !kCaps<Cap>) {
    // Exponentials are kept where they lose nothing.
    const float sum = RowExpSum<true>(cap, vocab, x, max, x);
    const Vec factor = simd::Set(scale / sum);
    simd::ForEachVec(vocab, [=](int64_t i, auto lanes) {
      lanes.Store(x + i, simd::Mul(lanes.Load(x + i), factor));
    });
    x[target] -= scale;
    return RowLoss(sum, max, target_logit);
  } else {
    const float sum = RowExpSum<false>(cap, vocab, x, max, x);
    Gradient<Cap>{cap, simd::Set(max), simd::Set(scale / sum)}.Replace(vocab, target, scale, x);
    return RowLoss(sum, max, target_logit);
  }
}

// Of a whole row, from the statistics of its parts.
struct RowSums {
  float max = 0;
  double sum = 0;  // of exp(logit - max)
  float target_logit = 0;
};

RowSums JoinParts(int64_t rows, int64_t parts, int64_t row, const float* statistics) {
  RowSums joined{.max = kLowest};
  for (int64_t p = 0; p < parts; ++p) {
    const float max = statistics[(p * rows + row) * 3];
    joined.max = max > joined.max || std::isnan(max) ? max : joined.max;
  }
  for (int64_t p = 0; p < parts; ++p) {
    const float* part = statistics + (p * rows + row) * 3;
    joined.sum += part[1] * std::exp(static_cast<double>(part[0]) - joined.max);
    joined.target_logit += part[2];
  }
  return joined;
}

// One by one onto *loss, so that the sum is the same however rows are cut into chunks.
void AddInOrder(int64_t rows, const double* row_losses, double* loss) {
  for (int64_t row = 0; row < rows; ++row) *loss += row_losses[row];
}

}  // namespace

int64_t CrossEntropyWorkspaceBytes(int64_t rows) {
  return rows * static_cast<int64_t>(sizeof(double));
}

template <typename T>
void CrossEntropyForwardBackward(const Context& context, const LossShape& shape, float scale,
                                 const int32_t* targets, T* logits, double* loss, void* workspace) {
  double* row_losses = static_cast<double*>(workspace);
  const int64_t vocab = shape.vocab;
  WithCap(shape.softcap, [&](auto cap) {
    ForBlocks(context, shape.rows, RowsPerTask(vocab), [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        row_losses[row] = GradientRow(cap, vocab, scale, targets[row], logits + row * vocab);
      }
    });
  });
  AddInOrder(shape.rows, row_losses, loss);
}

template <typename T>
void CrossEntropyForward(const Context& context, const LossShape& shape, const int32_t* targets,
                         const T* logits, double* loss, void* workspace) {
  double* row_losses = static_cast<double*>(workspace);
  const int64_t vocab = shape.vocab;
  WithCap(shape.softcap, [&](auto cap) {
    ForBlocks(context, shape.rows, RowsPerTask(vocab), [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* x = logits + row * vocab;
        row_losses[row] = 0;
        if (targets[row] < 0) continue;
        const float max = RowMax(cap, vocab, x);
        const float sum = RowExpSum<false>(cap, vocab, x, max, static_cast<T*>(nullptr));
        row_losses[row] = RowLoss(sum, max, Capped(cap, ToFloat(x[targets[row]])));
      }
    });
  });
  AddInOrder(shape.rows, row_losses, loss);
}

template <typename T>
void CrossEntropyStatistics(const Context& context, const VocabularyPart& part,
                            const int32_t* targets, const T* logits, float* statistics) {
  const int64_t used = part.columns - part.padding;
  WithCap(part.softcap, [&](auto cap) {
    ForBlocks(context, part.rows, RowsPerTask(part.columns), [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* x = logits + row * part.columns;
        const int64_t target = targets[row] - part.first;
        float* const of = statistics + row * 3;
        of[0] = RowMax(cap, used, x);
        of[1] = RowExpSum<false>(cap, used, x, of[0], static_cast<T*>(nullptr));
        of[2] = target >= 0 && target < used ? Capped(cap, ToFloat(x[target])) : 0;
      }
    });
  });
}

template <typename T>
void CrossEntropyFinish(const Context& context, const VocabularyPart& part, int64_t parts,
                        float scale, const int32_t* targets, const float* statistics, T* logits,
                        double* loss) {
  const int64_t used = part.columns - part.padding;
  WithCap(part.softcap, [&](auto cap) {
    ForBlocks(context, part.rows, RowsPerTask(part.columns), [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* const x = logits + row * part.columns;
        if (targets[row] < 0) {
          std::fill(x, x + part.columns, T{});
          continue;
        }
        const RowSums joined = JoinParts(part.rows, parts, row, statistics);
        const Gradient<decltype(cap)> gradient{cap, simd::Set(joined.max),
                                               simd::Set(static_cast<float>(scale / joined.sum))};
        gradient.Replace(used, targets[row] - part.first, scale, x);
        std::fill(x + used, x + part.columns, T{});
      }
    });
  });
  for (int64_t row = 0; row < part.rows; ++row) {
    if (targets[row] < 0) continue;
    const RowSums joined = JoinParts(part.rows, parts, row, statistics);
    *loss += std::log(joined.sum) + (static_cast<double>(joined.max) - joined.target_logit);
  }
}

}  // namespace strata::kernels::STRATA_ISA

namespace strata::kernels {

STRATA_KERNEL(void, CrossEntropyForwardBackward, const Context&, const LossShape&, float,
              const int32_t*, T*, double*, void*)
STRATA_KERNEL(void, CrossEntropyForward, const Context&, const LossShape&, const int32_t*, const T*,
              double*, void*)
STRATA_KERNEL(void, CrossEntropyStatistics, const Context&, const VocabularyPart&, const int32_t*,
              const T*, float*)
STRATA_KERNEL(void, CrossEntropyFinish, const Context&, const VocabularyPart&, int64_t, float,
              const int32_t*, const float*, T*, double*)
STRATA_PLAIN_KERNEL(int64_t, CrossEntropyWorkspaceBytes, int64_t)

}  // namespace strata::kernels
