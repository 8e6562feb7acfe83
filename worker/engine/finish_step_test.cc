#include "worker/engine/finish_step.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
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
  // Two shards, two sets: columns loss, set 0, set 1.
  const std::vector<double> leaves = {3, 4, 1, 5, 7, 4};
  const Block read = ScalarsWith(0.5);
  Block written{};
  FinishStep(leaves.data(), 2, 2, 1.0, read.data(), written.data());
  EXPECT_EQ(At(written, Scalar::kLoss), 4.0);
  EXPECT_EQ(At(written, Scalar::kGradientNorm), 4.0);  // sqrt(4 + 7 + 1 + 4)
  EXPECT_EQ(At(written, Scalar::kClipFactor), 1.0 / (4.0 + 1e-6));
  EXPECT_EQ(At(written, Scalar::kClipped), 1.0);
  EXPECT_EQ(At(written, Scalar::kApply), 1.0);
}

TEST(FinishStep, LeavesSmallGradientsAndUnclippedOnesAlone) {
  const std::vector<double> leaves = {1, 0.25};
  const Block read = ScalarsWith(1);
  Block written{};
  FinishStep(leaves.data(), 1, 1, 1.0, read.data(), written.data());
  EXPECT_EQ(At(written, Scalar::kClipFactor), 1.0);
  EXPECT_EQ(At(written, Scalar::kClipped), 0.0);
  const std::vector<double> large = {1, 100};
  FinishStep(large.data(), 1, 1, 0.0, read.data(), written.data());
  EXPECT_EQ(At(written, Scalar::kClipFactor), 1.0);
}

TEST(FinishStep, DoesNotApplyWhatIsNotFinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Block read = ScalarsWith(1);
  for (const std::vector<double>& leaves :
       {std::vector<double>{infinity, 1}, {1, infinity}, {std::nan(""), 1}, {1, std::nan("")}}) {
    Block written{};
    FinishStep(leaves.data(), 1, 1, 1.0, read.data(), written.data());
    EXPECT_EQ(At(written, Scalar::kApply), 0.0);
  }
}

TEST(FinishStep, WithoutSetsWritesTheLossAlone) {
  const std::vector<double> leaves = {1, 2, 3};
  const Block read = ScalarsWith(0.25);
  Block written;
  written.fill(-7);
  FinishStep(leaves.data(), 3, 0, 1.0, read.data(), written.data());
  EXPECT_EQ(At(written, Scalar::kLoss), 1.5);
  for (const Scalar scalar : {Scalar::kGradientNorm, Scalar::kClipFactor, Scalar::kApply}) {
    EXPECT_EQ(At(written, scalar), -7);
  }
}

}  // namespace
}  // namespace strata::worker
