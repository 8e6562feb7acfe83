#include "kernels/cuda/cross_entropy.h"

#include <numeric>

#include "kernels/cuda/testing.h"
#include "kernels/reference/cross_entropy.h"

namespace strata::kernels::cuda {
namespace {

constexpr float kScale = 0.125f;

// By packets and by elements; less and more than a block has threads, than are on their way at
// once, and than blocks keep in shared memory, of which a multiprocessor has two or one, and in
// registers; rows of several blocks.
constexpr LossShape kShapes[] = {{1, 2},      {3, 7},     {10, 24},      {3, 1031},  {1, 5008},
                                 {3, 56, 20}, {2, 30008}, {1, 2057, 20}, {2, 60008}, {1, 80008}};

// The last row's is the last column, the second row is ignored.
std::vector<int32_t> Targets(const LossShape& shape) {
  std::vector<int32_t> targets(shape.rows, 0);
  targets.back() = static_cast<int32_t>(shape.vocab - 1);
  if (shape.rows > 1) targets[1] = shape.rows > 2 ? -1 : targets[1];
  return targets;
}

template <typename T>
Doubles Losses(const LossShape& shape, const std::vector<int32_t>& targets,
               const std::vector<T>& logits) {
  const Doubles values = testing::WidenOf(logits);
  Doubles losses;
  for (int64_t row = 0; row < shape.rows; ++row) {
    const Doubles one(values.begin() + row * shape.vocab, values.begin() + (row + 1) * shape.vocab);
    losses.push_back(reference::CrossEntropyLoss(shape.vocab, {targets[row]}, one, shape.softcap));
  }
  return losses;
}

template <typename T>
class CrossEntropyTest : public TypedCudaTest<T> {};
TYPED_TEST_SUITE(CrossEntropyTest, NumberTypes);

TYPED_TEST(CrossEntropyTest, LossesAndGradientInPlaceEqualTheReference) {
  using T = TypeParam;
  for (const LossShape& shape : kShapes) {
    const auto targets = Targets(shape);
    const auto logits = testing::RandomOf<T>(shape.rows * shape.vocab, 1, 4);
    const auto losses = Losses(shape, targets, logits);
    const auto gradient = reference::CrossEntropyGradient(shape.vocab, kScale, targets,
                                                          testing::WidenOf(logits), shape.softcap);
    this->InEachOrder([&] {
      DeviceArray<T> values(logits, this->stream());
      DeviceArray<int32_t> wanted(targets, this->stream());
      DeviceArray<float> forward(shape.rows, this->stream()), both(shape.rows, this->stream());
      STRATA_EXPECT_OK(CrossEntropyForward<T>(this->stream(), shape, wanted.data(), values.data(),
                                              forward.data()));
      ExpectNumbers(forward.ToHost(), losses);
      EXPECT_EQ(testing::Back(values.ToHost()), testing::Back(logits));
      STRATA_EXPECT_OK(CrossEntropyForwardBackward(this->stream(), shape, kScale, wanted.data(),
                                                   values.data(), both.data()));
      EXPECT_EQ(both.ToHost(), forward.ToHost());
      ExpectNumbers(values.ToHost(), gradient);
      DeviceArray<T> again(logits, this->stream());
      DeviceArray<double> scale(Doubles{kScale}, this->stream());
      STRATA_EXPECT_OK(CrossEntropyForwardBackward(this->stream(), shape, scale.data(),
                                                   wanted.data(), again.data(), both.data()));
      EXPECT_EQ(testing::Back(again.ToHost()), testing::Back(values.ToHost()));
    });
  }
}

// Parts by packets and by elements, less and more than a block has threads, one of a column; with
// padding that begins inside a packet, and parts of nothing else.
constexpr struct {
  LossShape shape;
  int64_t parts, columns;
} kCuts[] = {{{4, 3}, 3, 1},    {{3, 14}, 2, 7},          {{4, 24}, 3, 8},     {{3, 1031}, 1, 1031},
             {{2, 101}, 2, 56}, {{2, 5008, 20}, 2, 2504}, {{2, 13, 20}, 3, 8}, {{2, 13}, 2, 7}};

// What a part's columns of the rows are, and `padding` behind them.
template <typename T>
std::vector<T> Columns(const std::vector<T>& logits, int64_t vocab, const VocabularyPart& part,
                       T padding) {
  std::vector<T> columns;
  for (size_t row = 0; row < logits.size() / vocab; ++row) {
    const auto begin = logits.begin() + row * vocab + std::min(part.first, vocab);
    columns.insert(columns.end(), begin, begin + (part.columns - part.padding));
    columns.insert(columns.end(), part.padding, padding);
  }
  return columns;
}

TYPED_TEST(CrossEntropyTest, PartsOfTheVocabularyGiveWholeRowsLossesAndTheirGradient) {
  using T = TypeParam;
  for (const auto& [shape, parts, columns] : kCuts) {
    const auto targets = Targets(shape);
    const auto logits = testing::RandomOf<T>(shape.rows * shape.vocab, 1, 4);
    const Doubles losses = Losses(shape, targets, logits);
    const double expected = std::accumulate(losses.begin(), losses.end(), 0.0);
    const auto gradient = reference::CrossEntropyGradient(shape.vocab, kScale, targets,
                                                          testing::WidenOf(logits), shape.softcap);
    const int64_t of_part = shape.rows * 3;
    this->InEachOrder([&, shape = shape, parts = parts, columns = columns] {
      cudaStream_t stream = this->stream();
      DeviceArray<int32_t> wanted(targets, stream);
      DeviceArray<float> statistics(parts * of_part, stream);
      DeviceArray<double> scale(Doubles{kScale}, stream);
      for (const bool finish : {false, true}) {
        for (int64_t p = 0; p < parts; ++p) {
          const VocabularyPart part{
              shape.rows, columns, p * columns, shape.softcap,
              std::clamp<int64_t>((p + 1) * columns - shape.vocab, 0, columns)};
          DeviceArray<T> values(Columns(logits, shape.vocab, part, T(100.F)), stream);
          DeviceArray<double> loss(Doubles{0.5}, stream);
          if (!finish) {
            STRATA_EXPECT_OK(CrossEntropyStatistics<T>(stream, part, wanted.data(), values.data(),
                                                       statistics.data() + p * of_part));
            STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream));
            continue;
          }
          STRATA_EXPECT_OK(CrossEntropyFinish(stream, part, parts, scale.data(), wanted.data(),
                                              statistics.data(), values.data(), loss.data()));
          EXPECT_NEAR(loss.ToHost()[0], 0.5 + expected, kTolerance * expected);
          ExpectNumbers(values.ToHost(), Columns(gradient, shape.vocab, part, 0.0));
        }
      }
    });
  }
}

// A part of what is masked has no sum; a NaN in any part reaches the loss of all.
TYPED_TEST(CrossEntropyTest, PartsThatAreMaskedOrNotNumbersAreJoined) {
  using T = TypeParam;
  for (const float other : {-INFINITY, NAN}) {
    const auto low = testing::As<T>(Floats(8, other)), high = testing::As<T>(Floats(8, 1.F));
    this->InEachOrder([&] {
      cudaStream_t stream = this->stream();
      DeviceArray<T> first(low, stream), second(high, stream);
      DeviceArray<int32_t> wanted(std::vector<int32_t>{9}, stream);
      DeviceArray<float> statistics(6, stream);
      DeviceArray<double> scale(Doubles{1}, stream), sum(Doubles{0}, stream);
      STRATA_EXPECT_OK(CrossEntropyStatistics<T>(stream, {1, 8, 0}, wanted.data(), first.data(),
                                                 statistics.data()));
      STRATA_EXPECT_OK(CrossEntropyStatistics<T>(stream, {1, 8, 8}, wanted.data(), second.data(),
                                                 statistics.data() + 3));
      STRATA_EXPECT_OK(CrossEntropyFinish(stream, {1, 8, 0}, 2, scale.data(), wanted.data(),
                                          statistics.data(), first.data(), sum.data()));
      const double loss = sum.ToHost()[0], gradient = ToFloat(first.ToHost()[0]);
      if (std::isnan(other)) {
        EXPECT_TRUE(std::isnan(loss) && std::isnan(gradient));
      } else {
        EXPECT_NEAR(loss, std::log(8), 1e-6);
        EXPECT_EQ(gradient, 0);
      }
    });
  }
}

TYPED_TEST(CrossEntropyTest, NoRowsAreNoWorkAndNoColumnsAreRefused) {
  using T = TypeParam;
  this->InEachOrder([&] {
    T* none = nullptr;
    STRATA_EXPECT_OK(CrossEntropyForward<T>(this->stream(), {0, 5}, nullptr, none, nullptr));
    STRATA_EXPECT_OK(CrossEntropyStatistics<T>(this->stream(), {0, 5, 0}, nullptr, none, nullptr));
    STRATA_EXPECT_OK(CrossEntropyFinish<T>(this->stream(), {0, 5, 0}, 2, nullptr, nullptr, nullptr,
                                           none, nullptr));
    EXPECT_EQ(
        CrossEntropyStatistics<T>(this->stream(), {3, 0, 4}, nullptr, none, nullptr).message(),
        "cross entropy of 3 rows of 0 logits from 4 on, the last 0 of them padding");
    EXPECT_EQ(CrossEntropyFinish<T>(this->stream(), {3, 5, 0}, 0, nullptr, nullptr, nullptr, none,
                                    nullptr)
                  .message(),
              "cross entropy of 0 parts");
  });
}

TYPED_TEST(CrossEntropyTest, ARowOfOneLogitHasNeitherLossNorGradient) {
  this->InEachOrder([&] {
    DeviceArray<TypeParam> logit(testing::As<TypeParam>({3}), this->stream());
    DeviceArray<int32_t> wanted(std::vector<int32_t>{0}, this->stream());
    DeviceArray<float> losses(1, this->stream());
    STRATA_EXPECT_OK(CrossEntropyForwardBackward(this->stream(), {1, 1}, 1.f, wanted.data(),
                                                 logit.data(), losses.data()));
    EXPECT_EQ(losses.ToHost(), Floats{0});
    // Its weight is a quotient of equal numbers by way of a reciprocal, which a device rounds.
    EXPECT_NEAR(testing::Back(logit.ToHost())[0], 0, 1e-7F);
  });
}

TYPED_TEST(CrossEntropyTest, LargeLogitsAndMinusInfinityDoNotOverflow) {
  using T = TypeParam;
  const LossShape shape{1, 600};
  Floats logits(shape.vocab, -INFINITY);
  logits[0] = 32768;
  logits[599] = 32512;  // both are bf16
  const auto expected = testing::As<T>(logits);
  this->InEachOrder([&] {
    DeviceArray<T> values(expected, this->stream());
    DeviceArray<int32_t> wanted(std::vector<int32_t>{599}, this->stream());
    DeviceArray<float> losses(1, this->stream());
    STRATA_EXPECT_OK(CrossEntropyForwardBackward(this->stream(), shape, 1.f, wanted.data(),
                                                 values.data(), losses.data()));
    const float distance = ToFloat(expected[0]) - ToFloat(expected[599]);
    EXPECT_FLOAT_EQ(losses.ToHost()[0], distance);
    Doubles gradient(shape.vocab, 0);
    gradient[0] = 1;
    gradient[599] = -1;
    ExpectNumbers(values.ToHost(), gradient);
  });
}

// Where logits are rounded by much more than what is added to them.
TYPED_TEST(CrossEntropyTest, WhatAllLogitsHaveInCommonChangesNoGradient) {
  using T = TypeParam;
  const LossShape shape{2, 20008};
  Floats shifted = testing::Random(shape.rows * shape.vocab, 1);
  for (float& logit : shifted) logit = 20000 + 4 * logit;
  const auto logits = testing::As<T>(shifted);
  const std::vector<int32_t> targets{7, 20007};
  Doubles rest = testing::WidenOf(logits);
  for (double& logit : rest) logit -= 20000;
  const auto gradient = reference::CrossEntropyGradient(shape.vocab, kScale, targets, rest, 0);
  this->InEachOrder([&] {
    DeviceArray<T> values(logits, this->stream());
    DeviceArray<int32_t> wanted(targets, this->stream());
    DeviceArray<float> losses(shape.rows, this->stream());
    STRATA_EXPECT_OK(CrossEntropyForwardBackward(this->stream(), shape, kScale, wanted.data(),
                                                 values.data(), losses.data()));
    ExpectNumbers(values.ToHost(), gradient);
  });
}

// On any thread, beside others or alone.
TYPED_TEST(CrossEntropyTest, ALogitThatIsNotANumberMakesTheRowsLossSo) {
  for (const int64_t at : {0, 3, 599}) {
    Floats logits(600, at == 3 ? -INFINITY : 1.F);
    logits[100] = 2;
    logits[at] = NAN;
    this->InEachOrder([&] {
      DeviceArray<TypeParam> values(testing::As<TypeParam>(logits), this->stream());
      DeviceArray<int32_t> wanted(std::vector<int32_t>{100}, this->stream());
      DeviceArray<float> losses(1, this->stream());
      STRATA_EXPECT_OK(CrossEntropyForwardBackward(this->stream(), {1, 600}, 1.f, wanted.data(),
                                                   values.data(), losses.data()));
      EXPECT_TRUE(std::isnan(losses.ToHost()[0]));
      EXPECT_TRUE(std::isnan(ToFloat(values.ToHost()[at])));
    });
  }
}

}  // namespace
}  // namespace strata::kernels::cuda
