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

}  // namespace
}  // namespace strata::collectives
