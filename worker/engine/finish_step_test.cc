#include "worker/engine/finish_step.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "program/ir/scalars.h"

namespace strata::worker {
namespace {

using program::Scalar;
using Block = std::array<double, program::kScalarCount>;

// The definition, level by level.
double PairBottomUp(std::vector<double> values) {
  while (values.size() > 1) {
    std::vector<double> next;
    for (size_t i = 0; i + 1 < values.size(); i += 2) next.push_back(values[i] + values[i + 1]);
    if (values.size() % 2 == 1) next.push_back(values.back());
    values = next;
  }
  return values.empty() ? 0 : values[0];
}

Block ScalarsWith(double inverse_tokens) {
  Block block{};
  block[static_cast<int>(Scalar::kInverseTokens)] = inverse_tokens;
  return block;
}
double At(const Block& block, Scalar scalar) { return block[static_cast<int>(scalar)]; }

TEST(TreeSum, PairsBottomUpForEveryCountAndStride) {
  for (int count = 0; count <= 33; ++count) {
    for (int stride = 1; stride <= 3; ++stride) {
      std::vector<double> values(count * stride + 1, 1e300), leaves;
      for (int i = 0; i < count; ++i) {
        values[i * stride] = std::ldexp(1.0 + i * 0.1, i % 50);
        leaves.push_back(values[i * stride]);
      }
      EXPECT_EQ(TreeSum(values.data(), count, stride), PairBottomUp(leaves)) << count;
    }
  }
}

TEST(FinishStep, ScalesTheLossAndClipsByTheNorm) {
  const std::vector<double> losses = {3, 5}, norms = {4, 1, 7, 4};  // set by set, two ranges each
  const Block read = ScalarsWith(0.5);
  Block written{};
  FinishStep({.rows = 2, .sets = 2, .clip = 1}, losses.data(), norms.data(), read.data(),
             written.data());
  EXPECT_EQ(At(written, Scalar::kLoss), 4.0);
  EXPECT_EQ(At(written, Scalar::kGradientNorm), 4.0);  // sqrt(4 + 1 + 7 + 4)
  EXPECT_EQ(At(written, Scalar::kClipFactor), 1.0 / (4.0 + 1e-6));
  EXPECT_EQ(At(written, Scalar::kClipped), 1.0);
  EXPECT_EQ(At(written, Scalar::kApply), 1.0);
}

// Values whose sum shows in its last bits in which order they were added.
double Leaf(int64_t leaf) { return std::ldexp(1.0 + 0.1 * static_cast<double>(leaf), leaf % 40); }

TEST(FinishStep, WhoeverHoldsWhichLeaf_TheTreeIsTheSame) {
  constexpr int64_t kRows = 16, kSets = 3;
  const Block read = ScalarsWith(1);
  Block one{};
  for (const int64_t data : {1, 2, 4, 8, 16}) {
    for (int64_t together = 1; together <= data; together *= 2) {
      for (int64_t norm_ranks = 1; norm_ranks <= data; norm_ranks *= 2) {
        const ops::FinishStep shape{.rows = kRows,
                                    .sets = kSets,
                                    .data = data,
                                    .together = together,
                                    .norm_ranks = norm_ranks};
        const int64_t per_rank = kRows / data, ranges = kRows / norm_ranks;
        std::vector<double> losses(kRows), norms(kRows * kSets);
        for (int64_t rank = 0; rank < data; ++rank) {
          for (int64_t l = 0; l < per_rank; ++l) {
            losses[rank * per_rank + l] =
                Leaf(rank / together * per_rank * together + l * together + rank % together);
          }
        }
        for (int64_t rank = 0; rank < norm_ranks; ++rank) {
          for (int64_t set = 0; set < kSets; ++set) {
            for (int64_t r = 0; r < ranges; ++r) {
              norms[(rank * kSets + set) * ranges + r] = Leaf(rank * ranges + r) * (1.0 + set);
            }
          }
        }
        Block written{};
        FinishStep(shape, losses.data(), norms.data(), read.data(), written.data());
        if (data == 1) one = written;
        EXPECT_EQ(written, one) << data << " " << together << " " << norm_ranks;
      }
    }
  }
  std::vector<double> in_order;
  for (int64_t leaf = 0; leaf < kRows; ++leaf) in_order.push_back(Leaf(leaf));
  EXPECT_EQ(At(one, Scalar::kLoss), PairBottomUp(in_order));
}

TEST(FinishStep, LeavesSmallGradientsAndUnclippedOnesAlone) {
  const double loss = 1, small = 0.25, large = 100;
  const Block read = ScalarsWith(1);
  Block written{};
  FinishStep({.rows = 1, .sets = 1, .clip = 1}, &loss, &small, read.data(), written.data());
  EXPECT_EQ(At(written, Scalar::kClipFactor), 1.0);
  EXPECT_EQ(At(written, Scalar::kClipped), 0.0);
  FinishStep({.rows = 1, .sets = 1}, &loss, &large, read.data(), written.data());
  EXPECT_EQ(At(written, Scalar::kClipFactor), 1.0);
}

TEST(FinishStep, DoesNotApplyWhatIsNotFinite) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Block read = ScalarsWith(1);
  for (const auto& [loss, norm] :
       {std::pair<double, double>{infinity, 1}, {1, infinity}, {nan, 1}, {1, nan}}) {
    Block written{};
    FinishStep({.rows = 1, .sets = 1, .clip = 1}, &loss, &norm, read.data(), written.data());
    EXPECT_EQ(At(written, Scalar::kApply), 0.0);
  }
}

TEST(FinishStep, WithoutSetsWritesTheLossAlone) {
  const std::vector<double> losses = {1, 2, 3};
  const Block read = ScalarsWith(0.25);
  Block written;
  written.fill(-7);
  FinishStep({.rows = 3, .clip = 1}, losses.data(), nullptr, read.data(), written.data());
  EXPECT_EQ(At(written, Scalar::kLoss), 1.5);
  for (const Scalar scalar : {Scalar::kGradientNorm, Scalar::kClipFactor, Scalar::kApply}) {
    EXPECT_EQ(At(written, scalar), -7);
  }
}

}  // namespace
}  // namespace strata::worker
