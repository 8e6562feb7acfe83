#include "model/initialize.h"

#include <cmath>
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::model {
namespace {

using program::Initializer;
using program::ParameterSet;

constexpr Initializer kNormal{Initializer::Kind::kNormal, 0.02};

ParameterSet Fused() {
  ParameterSet set;
  set.tensors = {
      {.name = "norm", .shape = {5}, .initializer = {Initializer::Kind::kConstant, 1}},
      {.name = "qk", .shape = {7, 9}, .initializer = kNormal, .parts = {{"q", 4}, {"k", 3}}}};
  program::FlattenSet(set, 3);
  return set;
}

TEST(FillInitialTest, Uniform_LiesWithinTheBoundAndHasItsVariance) {
  ParameterSet set;
  set.tensors = {
      {.name = "a", .shape = {100, 100}, .initializer = {Initializer::Kind::kUniform, 0.5}}};
  program::FlattenSet(set, 1);
  std::vector<float> values(set.elements);
  FillInitial(set, 3, 0, absl::MakeSpan(values));
  double sum = 0, squares = 0;
  for (const float value : values) {
    EXPECT_LE(std::abs(value), 0.5f);
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  EXPECT_NEAR(sum / 10000, 0, 0.01);
  EXPECT_NEAR(squares / 10000, 0.25 / 3, 0.002);
}

std::vector<float> All(const ParameterSet& set, uint64_t seed) {
  std::vector<float> values(set.elements, -7);
  FillInitial(set, seed, 0, absl::MakeSpan(values));
  return values;
}

TEST(InitializeTest, AnyRange_MakesItsPartOfTheWhole) {
  const ParameterSet set = Fused();
  const std::vector<float> whole = All(set, 3);
  for (int64_t begin = 0; begin < set.elements; ++begin) {
    for (int64_t end = begin; end <= set.elements; end += 5) {
      std::vector<float> part(end - begin);
      FillInitial(set, 3, begin, absl::MakeSpan(part));
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + begin));
    }
  }
}

// A set with a tensor cut along each dimension and one that is whole.
ParameterSet CutOver(int64_t ways) {
  const auto cut = [&](int dimension) {
    return program::Cut{program::Group::kTensor, dimension, ways};
  };
  ParameterSet set;
  set.tensors = {{.name = "norm", .shape = {8}, .initializer = kNormal},
                 {.name = "qk",
                  .shape = {12 / ways, 9},
                  .initializer = kNormal,
                  .parts = {{"q", 8 / ways}, {"k", 4 / ways}},
                  .cut = cut(0)},
                 {.name = "o", .shape = {5, 12 / ways}, .initializer = kNormal, .cut = cut(1)}};
  program::FlattenSet(set, 3);
  return set;
}

TEST(InitializeTest, CutTensors_HaveTheWholeTensorsNumbers) {
  std::map<std::string, std::map<int64_t, float>> whole;
  const ParameterSet uncut = CutOver(1);
  const std::vector<float> values = All(uncut, 3);
  for (const program::ElementRun& run : ElementRuns(uncut, 0, 0, uncut.elements)) {
    for (int64_t i = 0; i < run.count; ++i) {
      whole[uncut.tensors[run.tensor].logical_name(run.part)][run.first + i] = values[run.flat + i];
    }
  }
  EXPECT_EQ(whole["o"].size(), 60u);
  for (const int64_t ways : {2, 4}) {
    const ParameterSet set = CutOver(ways);
    EXPECT_THAT(set.tensors[1].logical_shape(1), testing::ElementsAre(4, 9));
    EXPECT_THAT(set.tensors[2].logical_shape(0), testing::ElementsAre(5, 12));
    std::map<std::string, std::map<int64_t, float>> joined;
    for (int64_t index = 0; index < ways; ++index) {
      std::vector<float> part(set.elements);
      FillInitial(set, 3, 0, absl::MakeSpan(part), index);
      for (const program::ElementRun& run : ElementRuns(set, index, 0, set.elements)) {
        for (int64_t i = 0; i < run.count; ++i) {
          joined[set.tensors[run.tensor].logical_name(run.part)][run.first + i] =
              part[run.flat + i];
        }
      }
    }
    EXPECT_EQ(joined, whole);
  }
}

TEST(InitializeTest, AnyRangeOfACutSet_MakesItsPart) {
  const ParameterSet set = CutOver(2);
  std::vector<float> all(set.elements, -7);
  FillInitial(set, 3, 0, absl::MakeSpan(all), 1);
  for (int64_t begin = 0; begin < set.elements; ++begin) {
    for (int64_t end = begin; end <= set.elements; end += 5) {
      std::vector<float> part(end - begin, -7);
      FillInitial(set, 3, begin, absl::MakeSpan(part), 1);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + begin));
    }
  }
}

TEST(InitializeTest, FusedTensor_HasTheNumbersOfItsParts) {
  ParameterSet apart;
  apart.tensors = {{.name = "k", .shape = {3, 9}, .initializer = kNormal},
                   {.name = "q", .shape = {4, 9}, .initializer = kNormal}};
  program::FlattenSet(apart, 1);
  const std::vector<float> fused = All(Fused(), 1);
  const std::vector<float> separate = All(apart, 1);
  for (int64_t i = 0; i < 27; ++i) EXPECT_EQ(fused[16 + 36 + i], separate[i]);
  for (int64_t i = 0; i < 36; ++i) EXPECT_EQ(fused[16 + i], separate[apart.tensors[1].offset + i]);
}

TEST(InitializeTest, NormsAreOneAndPaddingZero) {
  const std::vector<float> values = All(Fused(), 1);
  for (int64_t i = 0; i < 16; ++i) EXPECT_EQ(values[i], i < 5 ? 1.0f : 0.0f);
  for (size_t i = 16 + 63; i < values.size(); ++i) EXPECT_EQ(values[i], 0.0f);
}

TEST(InitializeTest, OtherSeedsAndNames_GiveOtherNumbers) {
  EXPECT_NE(All(Fused(), 1)[16], All(Fused(), 2)[16]);
  EXPECT_NE(InitialKey(1, "q"), InitialKey(1, "k"));
}

TEST(InitializeTest, NormalNumbers_HaveTheStandardDeviationAskedFor) {
  ParameterSet set;
  set.tensors = {{.name = "w", .shape = {100, 100}, .initializer = kNormal}};
  program::FlattenSet(set, 1);
  double sum = 0, squares = 0;
  for (const float value : All(set, 5)) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  EXPECT_NEAR(sum / 10000, 0, 1e-3);
  EXPECT_NEAR(std::sqrt(squares / 10000), 0.02, 6e-4);
}

}  // namespace
}  // namespace strata::model
