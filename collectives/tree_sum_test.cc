#include "collectives/tree_sum.h"

#include <vector>

#include "gtest/gtest.h"

namespace strata::collectives {
namespace {

// In float, 2^24 + 1 is 2^24 again, so what is left of the ones tells the order of addition.
constexpr float kBig = 0x1p24f;

float SumOf(std::vector<float> values, int kept) {
  std::vector<float*> leaves, nodes(values.size());
  for (float& value : values) leaves.push_back(&value);
  const float before = values[kept];
  float sum = -1;
  TreeSum<float>(leaves, kept, 0, 1, &sum, absl::MakeSpan(nodes));
  EXPECT_EQ(values[kept], before);
  return sum;
}

TEST(TreeSumTest, Sum_OfValuesThatLoseOnes_ShowsTheTree) {
  for (const int kept : {0, 1, 2}) {
    // Three: (a + b) + c.
    EXPECT_EQ(SumOf({kBig, 1, 1}, kept), kBig);
    EXPECT_EQ(SumOf({1, 1, kBig}, kept), kBig + 2);
    // Four: (a + b) + (c + d), which left to right would make kBig.
    EXPECT_EQ(SumOf({kBig, 0, 1, 1}, kept), kBig + 2);
    EXPECT_EQ(SumOf({kBig, 1, 0, 1}, kept), kBig);
    // Five: the last joins at the end. Six: (e + f) joins (a + b) + (c + d).
    EXPECT_EQ(SumOf({kBig, 0, 0, 1, 1}, kept), kBig);
    EXPECT_EQ(SumOf({kBig, 0, 0, 0, 1, 1}, kept), kBig + 2);
  }
  EXPECT_EQ(SumOf({7}, 0), 7);
}

TEST(TreeSumTest, Sum_OfARange_WritesNothingOutsideItAndKeepsOneLeaf) {
  constexpr int64_t kCount = 5000;
  for (const int64_t end : {1, 1023, 1024, 1025, 4999}) {
    std::vector<std::vector<double>> values(5, std::vector<double>(kCount));
    std::vector<double*> leaves, nodes(5);
    for (int leaf = 0; leaf < 5; ++leaf) {
      for (int64_t i = 0; i < kCount; ++i) values[leaf][i] = leaf * 10'000 + i;
      leaves.push_back(values[leaf].data());
    }
    const std::vector<double> kept = values[4];
    std::vector<double> out(kCount, -1);
    TreeSum<double>(leaves, 4, 1, end, out.data(), absl::MakeSpan(nodes));
    for (int64_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(out[i], i >= 1 && i < end ? 100'000 + 5 * i : -1) << i;
    }
    EXPECT_EQ(values[4], kept);
  }
}

TEST(TreeSumTest, Sum_IntoTheKeptLeaf_IsTheSame) {
  std::vector<float> own(3000, 1), other(3000, 2);
  std::vector<float*> leaves = {other.data(), own.data()}, nodes(2);
  TreeSum<float>(leaves, 1, 0, 3000, own.data(), absl::MakeSpan(nodes));
  EXPECT_EQ(own, std::vector<float>(3000, 3));
}

TEST(NarrowTreeSumTest, Sum_IsThatOfTheTreeInFloat_RoundedOnce) {
  using kernels::BFloat16;
  for (int count = 1; count <= 9; ++count) {
    std::vector<std::vector<BFloat16>> values;
    std::vector<std::vector<float>> wide;
    for (int leaf = 0; leaf < count; ++leaf) {
      values.emplace_back(600);
      wide.emplace_back(600);
      for (int i = 0; i < 600; ++i) {
        const float value = static_cast<float>((leaf * 7919 + i * 104729) % 1000 - 500) / 64;
        values[leaf][i] = kernels::FromFloat<BFloat16>(value);
        wide[leaf][i] = kernels::ToFloat(values[leaf][i]);
      }
    }
    std::vector<BFloat16*> leaves;
    std::vector<float*> wide_leaves, nodes(count);
    for (int leaf = 0; leaf < count; ++leaf) {
      leaves.push_back(values[leaf].data());
      wide_leaves.push_back(wide[leaf].data());
    }
    std::vector<float> sums(600, -1);
    TreeSum<float>(wide_leaves, 0, 1, 599, sums.data(), absl::MakeSpan(nodes));
    NarrowTreeSum<BFloat16>(leaves, 1, 599, leaves.back());  // into a leaf
    for (int i = 1; i < 599; ++i) {
      ASSERT_EQ(values.back()[i].bits, kernels::FromFloat<BFloat16>(sums[i]).bits) << count;
    }
  }
}

TEST(NarrowTreeSumTest, Sum_OfWhatBfloat16WouldLose_KeepsIt) {
  using kernels::BFloat16;
  // 256 + 1 is 256 in bfloat16: four ones, added first in float, are not lost.
  std::vector<BFloat16> values;
  for (const float value : {256.F, 1.F, 1.F, 1.F, 1.F}) {
    values.push_back(kernels::FromFloat<BFloat16>(value));
  }
  std::vector<BFloat16*> leaves;
  for (BFloat16& value : values) leaves.push_back(&value);
  BFloat16 sum;
  NarrowTreeSum<BFloat16>(leaves, 0, 1, &sum);
  EXPECT_EQ(kernels::ToFloat(sum), 260);
}

}  // namespace
}  // namespace strata::collectives
