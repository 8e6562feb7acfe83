#include "data/trained_tokens.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/rng.h"
#include "data/batch_reader.h"
#include "data/testing.h"
#include "gtest/gtest.h"

namespace strata::data {
namespace {

constexpr int64_t kTokens = 600'000;

std::shared_ptr<const TokenSource> Tokens(bool masked) {
  std::vector<int64_t> lengths = RandomLengths(3, kTokens / 10, 12, 5);
  int64_t sum = 0;
  for (const int64_t length : lengths) sum += length;
  lengths.push_back(std::max<int64_t>(1, kTokens - sum));
  sum = 0;
  for (const int64_t length : lengths) sum += length;
  std::vector<bool> trained;
  for (int64_t i = 0; masked && i < sum; ++i) {
    trained.push_back(common::MixBits(7, static_cast<uint64_t>(i)) % 3 != 0);
  }
  return std::make_shared<GivenTokens>(lengths, trained);
}

SplitSource SourceOf(bool masked, bool packed, int64_t sequence, int64_t first_window) {
  SplitSource source;
  source.tokens = Tokens(masked);
  source.first_window = first_window;
  source.windows = (source.tokens->tokens() - 1) / sequence - first_window;
  if (packed) {
    source.packing = std::make_shared<const Packing>(*source.tokens->DocumentEnds(), 0,
                                                     source.tokens->tokens(), sequence);
    source.windows = source.packing->windows() - first_window;
  }
  return source;
}

int64_t TrainedIn(BatchReader& reader, SampleRef sample, int64_t sequence) {
  std::vector<int32_t> tokens(static_cast<size_t>(sequence)), targets = tokens;
  EXPECT_TRUE(reader.ReadWindow(sample, tokens.data(), targets.data()).ok());
  return std::count_if(targets.begin(), targets.end(), [](int32_t target) { return target >= 0; });
}

TEST(TrainedTokensTest, AnyFiles_CountsWhatReadingThemGives) {
  for (const int64_t sequence : {1, 7, 64, 300'000}) {
    Split split;
    split.sequence = sequence;
    for (const bool masked : {false, true}) {
      for (const bool packed : {false, true}) {
        split.sources.push_back(SourceOf(masked, packed, sequence, sequence < 100 ? 5 : 0));
        if (split.sources.back().windows < 1) split.sources.pop_back();
      }
    }
    const auto counted = TrainedTokens::Count(split);
    ASSERT_TRUE(counted.ok()) << counted.status();
    BatchReader reader(split);
    const Sampler sampler(split, 1, true);
    constexpr int64_t kSamples = 40;
    int64_t sum = 0;
    for (int64_t i = 0; i < kSamples; ++i) {
      const SampleRef sample = sampler.At(1000 + i);
      const int64_t trained = TrainedIn(reader, sample, sequence);
      EXPECT_EQ(counted->Of(sample), trained) << sample.source << " " << sample.window;
      sum += trained;
    }
    EXPECT_EQ(counted->Of(sampler, 1000, kSamples), sum);
    const int64_t spread = std::min<int64_t>(split.windows(), 13);
    sum = 0;
    for (int64_t i = 0; i < spread; ++i) {
      sum += TrainedIn(reader, split.Spread(i, spread), sequence);
    }
    EXPECT_EQ(counted->OfSpread(spread), sum);
  }
}

TEST(TrainedTokensTest, NeitherMaskedNorPacked_IsAllOfThem) {
  Split split;
  split.sequence = 8;
  split.sources.push_back(SourceOf(false, false, 8, 0));
  const auto counted = TrainedTokens::Count(split);
  ASSERT_TRUE(counted.ok());
  EXPECT_EQ(counted->Of(Sampler(split, 1, true), 0, 1000), 8000);
  EXPECT_EQ(counted->OfSpread(5), 40);
}

}  // namespace
}  // namespace strata::data
