#include "data/sampler.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "data/permutation.h"
#include "gtest/gtest.h"

namespace strata::data {
namespace {

Split SplitOf(const std::vector<std::pair<int64_t, double>>& sources) {
  Split split;
  split.sequence = 1;
  for (const auto& [windows, weight] : sources) {
    split.sources.push_back({nullptr, 0, windows, weight});
  }
  return split;
}

TEST(PermutationTest, At_EverySmallSizeAndSomeLarge_IsABijection) {
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= 130; ++size) sizes.push_back(size);
  for (const int64_t size : {255, 256, 257, 1000, 4097, 65537, 100003}) sizes.push_back(size);
  for (const int64_t size : sizes) {
    for (const uint64_t key : {uint64_t{0}, uint64_t{1}, uint64_t{0x123456789abcdef0}}) {
      const Permutation permutation(size, key);
      std::vector<bool> seen(static_cast<size_t>(size));
      for (int64_t i = 0; i < size; ++i) {
        const int64_t image = permutation.At(i);
        ASSERT_TRUE(image >= 0 && image < size);
        ASSERT_FALSE(seen[static_cast<size_t>(image)]) << size << " " << key << " " << i;
        seen[static_cast<size_t>(image)] = true;
      }
    }
  }
}

TEST(PermutationTest, At_HugeSize_StaysInsideWithoutRepeats) {
  const int64_t size = (int64_t{1} << 61) + 12345;
  const Permutation permutation(size, 7);
  std::vector<int64_t> images;
  for (int64_t i = 0; i < 1000; ++i) images.push_back(permutation.At(size - 1 - i));
  for (const int64_t image : images) EXPECT_TRUE(image >= 0 && image < size);
  std::sort(images.begin(), images.end());
  EXPECT_EQ(std::unique(images.begin(), images.end()), images.end());
}

// Each value falls in each tenth of the range about equally often: chi-squared with 9 x 9 degrees
// of freedom (mean 81, deviation 12.7).
TEST(PermutationTest, At_ManyKeys_SpreadsPlacesEvenly) {
  constexpr int kSize = 1000, kKeys = 100;
  double counts[10][10] = {};
  for (uint64_t key = 0; key < kKeys; ++key) {
    const Permutation permutation(kSize, key);
    for (int i = 0; i < kSize; ++i) counts[i / 100][permutation.At(i) / 100] += 1;
  }
  const double expected = kSize * kKeys / 100.0;
  double chi_squared = 0;
  for (const auto& row : counts) {
    for (const double count : row)
      chi_squared += (count - expected) * (count - expected) / expected;
  }
  EXPECT_LT(chi_squared, 81 + 5 * 12.7);
  EXPECT_GT(chi_squared, 81 - 5 * 12.7);
}

TEST(SamplerTest, At_OneSource_VisitsEveryWindowOncePerEpochInNewOrder) {
  const Sampler sampler(SplitOf({{97, 1}}), 1, true);
  std::vector<std::vector<int64_t>> epochs(4);
  for (int64_t i = 0; i < 4 * 97; ++i)
    epochs[static_cast<size_t>(i / 97)].push_back(sampler.At(i).window);
  for (size_t e = 0; e < epochs.size(); ++e) {
    for (size_t f = 0; f < e; ++f) EXPECT_NE(epochs[e], epochs[f]);
    std::vector<int64_t> sorted = epochs[e];
    std::sort(sorted.begin(), sorted.end());
    for (int64_t w = 0; w < 97; ++w) EXPECT_EQ(sorted[static_cast<size_t>(w)], w);
  }
}

TEST(SamplerTest, At_OtherSeed_GivesOtherOrder) {
  const Split split = SplitOf({{1000, 1}});
  const Sampler one(split, 1, true), same(split, 1, true), other(split, 2, true);
  int equal = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(one.At(i), same.At(i));
    equal += one.At(i) == other.At(i);
  }
  EXPECT_LT(equal, 20);  // about 1 is expected
}

TEST(SamplerTest, At_WithoutShuffle_GoesInFileOrderAndStartsOver) {
  const Sampler sampler(SplitOf({{5, 1}}), 1, false);
  for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(sampler.At(i), (SampleRef{0, i % 5}));
}

// The stateless order equals one that counts turns and remembers each source's position.
TEST(SamplerTest, At_SeveralSources_EqualsASequentialWalkFromAnyIndex) {
  const Split split = SplitOf({{7, 1}, {11, 2.5}, {3, 0.25}});
  const Sampler sampler(split, 3, false);
  std::vector<int64_t> position(3);
  std::vector<SampleRef> straight;
  for (int64_t i = 0; i < 500; ++i) {
    const SampleRef sample = sampler.At(i);
    int64_t& at = position[static_cast<size_t>(sample.source)];
    EXPECT_EQ(sample.window, at++ % split.sources[static_cast<size_t>(sample.source)].windows);
    straight.push_back(sample);
  }
  const Sampler resumed(split, 3, false);
  for (const int64_t start : {499, 250, 1}) {
    for (int64_t i = start; i < 500; ++i)
      EXPECT_EQ(resumed.At(i), straight[static_cast<size_t>(i)]);
  }
}

TEST(SamplerTest, At_SeveralSourcesShuffled_EachCoversItsWindowsEveryEpoch) {
  const Split split = SplitOf({{7, 1}, {11, 3}});
  const Sampler sampler(split, 3, true);
  std::vector<std::vector<int64_t>> visits = {{}, {}};
  for (int64_t i = 0; i < 400; ++i) {
    const SampleRef sample = sampler.At(i);
    visits[static_cast<size_t>(sample.source)].push_back(sample.window);
  }
  for (size_t s = 0; s < 2; ++s) {
    const size_t windows = static_cast<size_t>(split.sources[s].windows);
    for (size_t epoch = 0; (epoch + 1) * windows <= visits[s].size(); ++epoch) {
      std::vector<int> count(windows);
      for (size_t i = 0; i < windows; ++i)
        ++count[static_cast<size_t>(visits[s][epoch * windows + i])];
      EXPECT_EQ(count, std::vector<int>(windows, 1));
    }
  }
}

// Weighted by their windows, sources are read through at the same time, again and again.
TEST(SamplerTest, At_WeightsAreTheWindows_VisitsEveryWindowOncePerPass) {
  const std::vector<std::vector<int64_t>> cases = {
      {1, 2}, {3, 7}, {97, 1, 13}, {1, 1, 1, 1, 1}, {1000, 999, 7, 1, 31, 64}};
  for (const std::vector<int64_t>& sizes : cases) {
    Split split = SplitOf({});
    int64_t total = 0;
    for (const int64_t windows : sizes) {
      split.sources.push_back({nullptr, 0, windows, static_cast<double>(windows)});
      total += windows;
    }
    const Sampler sampler(split, 5, true);
    for (int64_t pass = 0; pass < 3; ++pass) {
      std::set<std::pair<int32_t, int64_t>> seen;
      for (int64_t i = pass * total; i < (pass + 1) * total; ++i) {
        const SampleRef sample = sampler.At(i);
        EXPECT_TRUE(seen.emplace(sample.source, sample.window).second) << pass << " " << i;
      }
      EXPECT_EQ(*sampler.SamplesOfPasses(pass + 1), (pass + 1) * total);
    }
  }
}

TEST(SamplerTest, SamplesOfPasses_OtherWeights_IsTheLeastWithWhichAllIsRead) {
  const Split split = SplitOf({{7, 1}, {11, 2.5}, {3, 0.25}});
  const Sampler sampler(split, 3, true);
  for (int64_t passes = 1; passes <= 3; ++passes) {
    const int64_t samples = *sampler.SamplesOfPasses(passes);
    std::vector<int64_t> counts(3);
    for (int64_t i = 0; i < samples; ++i) {
      EXPECT_TRUE(counts[0] < 7 * passes || counts[1] < 11 * passes || counts[2] < 3 * passes) << i;
      ++counts[static_cast<size_t>(sampler.At(i).source)];
    }
    EXPECT_GE(counts[0], 7 * passes);
    EXPECT_GE(counts[1], 11 * passes);
    EXPECT_GE(counts[2], 3 * passes);
  }
}

TEST(SamplerTest, SamplesOfPasses_LargeOrHopeless_NeitherOverflowsNorRunsForEver) {
  const int64_t many = int64_t{1} << 40;
  EXPECT_EQ(*Sampler(SplitOf({{many, 1}}), 1, true).SamplesOfPasses(1 << 20), many << 20);
  const Sampler hopeless(SplitOf({{10, 1e300}, {10, 1e-300}}), 1, true);
  EXPECT_EQ(hopeless.SamplesOfPasses(1).status().code(), absl::StatusCode::kOutOfRange);
}

TEST(InterleaveTest, CountsAfter_AnyPrefix_AreThoseOfItsTurns) {
  const Interleave interleave({5, 1, 0.3, 2, 2, 9, 1});
  std::vector<int64_t> counts(7);
  for (int64_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(interleave.CountsAfter(i), counts);
    ++counts[static_cast<size_t>(interleave.At(i).source)];
  }
  EXPECT_EQ(Interleave({4}).CountsAfter(9), std::vector<int64_t>{9});
}

TEST(InterleaveTest, At_AnyPrefix_KeepsProportionsWithinTheTreesDepth) {
  const std::vector<std::vector<double>> cases = {
      {1}, {1, 1}, {3, 1}, {1e300, 1e300, 5e299}, {1e-300, 2e-300}, {5, 1, 0.3, 2, 2, 9, 1}};
  for (const std::vector<double>& weights : cases) {
    const Interleave interleave(weights);
    double total = 0;
    for (const double weight : weights) total += weight / weights[0];
    const double depth = std::ceil(std::log2(static_cast<double>(weights.size())));
    std::vector<int64_t> counts(weights.size());
    for (int64_t i = 0; i < 3000; ++i) {
      const Interleave::Turn turn = interleave.At(i);
      ASSERT_EQ(turn.count, counts[static_cast<size_t>(turn.source)]++);
      for (size_t s = 0; s < weights.size(); ++s) {
        const double share = weights[s] / weights[0] / total;
        ASSERT_LE(std::abs(static_cast<double>(counts[s]) - share * static_cast<double>(i + 1)),
                  depth + 1e-6);
      }
    }
  }
}

TEST(InterleaveTest, At_LargeIndex_IsStillExact) {
  const Interleave interleave({1, 2});
  const int64_t far = int64_t{3} << 60;
  int64_t counts[2] = {};
  for (int64_t i = 0; i < 300; ++i) {
    const Interleave::Turn turn = interleave.At(far + i), next = interleave.At(far + i + 1);
    ++counts[turn.source];
    if (next.source == turn.source) {
      EXPECT_EQ(next.count, turn.count + 1);
    }
  }
  EXPECT_NEAR(static_cast<double>(counts[0]), 100, 1);
}

}  // namespace
}  // namespace strata::data
