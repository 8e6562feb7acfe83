#include "kernels/cross_entropy.h"

#include <cmath>
#include <limits>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels {
namespace {

using simd::Vec;

float RowMax(int64_t vocab, const float* x) {
  const Vec lowest = simd::Set(-std::numeric_limits<float>::infinity());
  Vec highest[4] = {lowest, lowest, lowest, lowest};
  simd::ForEachVec4(vocab, [&](int64_t i, int group, auto lanes) {
    highest[group] = _mm256_max_ps(lanes.LoadOr(x + i, lowest), highest[group]);
  });
  return simd::Max(
      _mm256_max_ps(_mm256_max_ps(highest[0], highest[1]), _mm256_max_ps(highest[2], highest[3])));
}

// Sum of exp(x - max). With kStore the exponentials are written to `to`.
template <bool kStore>
float RowExpSum(int64_t vocab, const float* x, float max, [[maybe_unused]] float* to) {
  const Vec shift = simd::Set(max);
  const Vec lowest = simd::Set(-std::numeric_limits<float>::infinity());
  Vec sums[4] = {simd::Zero(), simd::Zero(), simd::Zero(), simd::Zero()};
  simd::ForEachVec4(vocab, [&](int64_t i, int group, auto lanes) {
    const Vec value = simd::Exp(_mm256_sub_ps(lanes.LoadOr(x + i, lowest), shift));
    if constexpr (kStore) lanes.Store(to + i, value);
    sums[group] = _mm256_add_ps(sums[group], value);
  });
  return simd::Sum(_mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3])));
}

double RowLoss(float sum, float max, float target_logit) {
  return std::log(static_cast<double>(sum)) + (static_cast<double>(max) - target_logit);
}

// One row: its loss, and the gradient in place.
double GradientRow(int64_t vocab, float scale, int32_t target, float* x) {
  if (target < 0) {
    std::fill(x, x + vocab, 0.0f);
    return 0;
  }
  const float target_logit = x[target];
  const float max = RowMax(vocab, x);
  const float sum = RowExpSum<true>(vocab, x, max, x);
  const Vec factor = simd::Set(scale / sum);
  simd::ForEachVec(vocab, [=](int64_t i, auto lanes) {
    lanes.Store(x + i, _mm256_mul_ps(lanes.Load(x + i), factor));
  });
  x[target] -= scale;
  return RowLoss(sum, max, target_logit);
}

// Of a whole row, from the statistics of its parts.
struct RowSums {
  float max = 0;
  double sum = 0;  // of exp(logit - max)
  float target_logit = 0;
};

RowSums JoinParts(int64_t rows, int64_t parts, int64_t row, const float* statistics) {
  RowSums joined{.max = -std::numeric_limits<float>::infinity()};
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

void CrossEntropyForwardBackward(const Context& context, int64_t rows, int64_t vocab, float scale,
                                 const int32_t* targets, float* logits, double* loss,
                                 void* workspace) {
  double* row_losses = static_cast<double*>(workspace);
  ForBlocks(context, rows, RowsPerTask(vocab), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      row_losses[row] = GradientRow(vocab, scale, targets[row], logits + row * vocab);
    }
  });
  AddInOrder(rows, row_losses, loss);
}

void CrossEntropyForward(const Context& context, int64_t rows, int64_t vocab,
                         const int32_t* targets, const float* logits, double* loss,
                         void* workspace) {
  double* row_losses = static_cast<double*>(workspace);
  ForBlocks(context, rows, RowsPerTask(vocab), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* x = logits + row * vocab;
      row_losses[row] = 0;
      if (targets[row] < 0) continue;
      const float max = RowMax(vocab, x);
      const float sum = RowExpSum<false>(vocab, x, max, nullptr);
      row_losses[row] = RowLoss(sum, max, x[targets[row]]);
    }
  });
  AddInOrder(rows, row_losses, loss);
}

void CrossEntropyStatistics(const Context& context, const VocabularyPart& part,
                            const int32_t* targets, const float* logits, float* statistics) {
  ForBlocks(context, part.rows, RowsPerTask(part.columns), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* x = logits + row * part.columns;
      const int64_t target = targets[row] - part.first;
      float* const of = statistics + row * 3;
      of[0] = RowMax(part.columns, x);
      of[1] = RowExpSum<false>(part.columns, x, of[0], nullptr);
      of[2] = target >= 0 && target < part.columns ? x[target] : 0;
    }
  });
}

void CrossEntropyFinish(const Context& context, const VocabularyPart& part, int64_t parts,
                        float scale, const int32_t* targets, const float* statistics, float* logits,
                        double* loss) {
  ForBlocks(context, part.rows, RowsPerTask(part.columns), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* const x = logits + row * part.columns;
      if (targets[row] < 0) {
        std::fill(x, x + part.columns, 0.0f);
        continue;
      }
      const RowSums joined = JoinParts(part.rows, parts, row, statistics);
      const Vec shift = simd::Set(joined.max);
      const Vec factor = simd::Set(static_cast<float>(scale / joined.sum));
      simd::ForEachVec(part.columns, [=](int64_t i, auto lanes) {
        const Vec value = simd::Exp(_mm256_sub_ps(lanes.Load(x + i), shift));
        lanes.Store(x + i, _mm256_mul_ps(value, factor));
      });
      const int64_t target = targets[row] - part.first;
      if (target >= 0 && target < part.columns) x[target] -= scale;
    }
  });
  for (int64_t row = 0; row < part.rows; ++row) {
    if (targets[row] < 0) continue;
    const RowSums joined = JoinParts(part.rows, parts, row, statistics);
    *loss += std::log(joined.sum) + (static_cast<double>(joined.max) - joined.target_logit);
  }
}

}  // namespace strata::kernels
