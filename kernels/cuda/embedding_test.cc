#include "kernels/cuda/embedding.h"

#include "kernels/cuda/testing.h"
#include "kernels/reference/embedding.h"

namespace strata::kernels::cuda {
namespace {

// By packets and by elements; more rows and columns than a block has threads.
constexpr EmbeddingShape kShapes[] = {{1, 1, 0, 1},    {5, 7, 0, 3},   {9, 24, 0, 4},
                                      {4, 2056, 0, 2}, {700, 8, 0, 5}, {600, 3, 0, 50}};

std::vector<int32_t> Tokens(const EmbeddingShape& shape) {
  std::vector<int32_t> tokens;
  for (int64_t row = 0; row < shape.rows; ++row) {
    tokens.push_back(static_cast<int32_t>(row * row * 7 % shape.count));
  }
  return tokens;
}

template <typename T>
class EmbeddingTest : public TypedCudaTest<T> {};
TYPED_TEST_SUITE(EmbeddingTest, NumberTypes);

TYPED_TEST(EmbeddingTest, ForwardEqualsTheReference) {
  using T = TypeParam;
  for (const EmbeddingShape& shape : kShapes) {
    const auto tokens = Tokens(shape);
    const auto table = testing::RandomOf<T>(shape.count * shape.channels, 1);
    const auto expected =
        reference::EmbeddingForward(shape.channels, tokens, testing::WidenOf(table));
    this->InEachOrder([&] {
      DeviceArray<T> entries(table, this->stream()), y(expected.size(), this->stream());
      DeviceArray<int32_t> which(tokens, this->stream());
      STRATA_EXPECT_OK(
          EmbeddingForward(this->stream(), shape, which.data(), entries.data(), y.data()));
      EXPECT_EQ(testing::WidenOf(y.ToHost()), expected);
    });
  }
}

TYPED_TEST(EmbeddingTest, BackwardAddsRowsOfTheSameTokenToItsEntry) {
  using T = TypeParam;
  for (const EmbeddingShape& shape : kShapes) {
    const auto tokens = Tokens(shape);
    const auto dy = testing::RandomOf<T>(shape.rows * shape.channels, 1);
    const Floats before = testing::Random(shape.count * shape.channels, 2);
    const auto expected = reference::EmbeddingBackward(shape.channels, tokens, testing::WidenOf(dy),
                                                       testing::Widen(before));
    this->InEachOrder([&] {
      DeviceArray<T> gradient(dy, this->stream());
      DeviceArray<float> dtable(before, this->stream());
      DeviceArray<int32_t> which(tokens, this->stream());
      STRATA_EXPECT_OK(
          EmbeddingBackward(this->stream(), shape, which.data(), gradient.data(), dtable.data()));
      ExpectNumbers(dtable.ToHost(), expected);
    });
  }
}

// Of every 40 rows one has a token of the table, so that rows lie in two tiles and some tokens have
// more of them than are read at once.
TYPED_TEST(EmbeddingTest, BackwardFindsRowsThatAreFarApart) {
  using T = TypeParam;
  constexpr int64_t kRows = 4200, kChannels = 8, kEntries = 3;
  std::vector<int32_t> tokens(kRows, kEntries);
  for (int64_t row = 0; row < kRows; row += 40) {
    tokens[row] = static_cast<int32_t>(row % 400 == 0 ? 1 : row % 1000 == 40 ? 2 : 0);
  }
  const auto dy = testing::RandomOf<T>(kRows * kChannels, 1);
  const Floats before = testing::Random((kEntries + 1) * kChannels, 2);
  Doubles expected =
      reference::EmbeddingBackward(kChannels, tokens, testing::WidenOf(dy), testing::Widen(before));
  expected.resize(kEntries * kChannels);
  this->InEachOrder([&] {
    DeviceArray<T> gradient(dy, this->stream());
    DeviceArray<float> dtable(Floats(before.begin(), before.end() - kChannels), this->stream());
    DeviceArray<int32_t> which(tokens, this->stream());
    STRATA_EXPECT_OK(EmbeddingBackward(this->stream(), {kRows, kChannels, 0, kEntries},
                                       which.data(), gradient.data(), dtable.data()));
    ExpectNumbers(dtable.ToHost(), expected);
  });
}

TYPED_TEST(EmbeddingTest, TokensOfAnotherPartGiveZerosAndNoGradient) {
  using T = TypeParam;
  const EmbeddingShape shape{.rows = 4, .channels = 8, .first = 10, .count = 2, .scale = 0.5f};
  const std::vector<int32_t> tokens{9, 10, 12, 11};
  const auto table = testing::RandomOf<T>(2 * 8, 1), dy = testing::RandomOf<T>(4 * 8, 2);
  Doubles y(4 * 8, 0), dtable(2 * 8);
  for (int64_t c = 0; c < 8; ++c) {
    y[8 + c] = ToFloat(table[c]) * 0.5;
    y[24 + c] = ToFloat(table[8 + c]) * 0.5;
    dtable[c] = ToFloat(dy[8 + c]) * 0.5;
    dtable[8 + c] = ToFloat(dy[24 + c]) * 0.5;
  }
  this->InEachOrder([&] {
    DeviceArray<T> entries(table, this->stream()), gradient(dy, this->stream()),
        out(4 * 8, this->stream());
    DeviceArray<float> sums(Floats(2 * 8, 0.F), this->stream());
    DeviceArray<int32_t> which(tokens, this->stream());
    STRATA_EXPECT_OK(
        EmbeddingForward(this->stream(), shape, which.data(), entries.data(), out.data()));
    STRATA_EXPECT_OK(
        EmbeddingBackward(this->stream(), shape, which.data(), gradient.data(), sums.data()));
    EXPECT_EQ(testing::WidenOf(out.ToHost()), y);
    ExpectNumbers(sums.ToHost(), dtable);
  });
}

TYPED_TEST(EmbeddingTest, NoRowsAreNoWorkNoEntriesGiveZerosAndNoChannelsAreRefused) {
  using T = TypeParam;
  this->InEachOrder([&] {
    const T* none = nullptr;
    DeviceArray<int32_t> tokens(std::vector<int32_t>{0, 5, -1}, this->stream());
    DeviceArray<T> y(3 * 8, this->stream());
    STRATA_EXPECT_OK(EmbeddingForward<T>(this->stream(), {0, 8, 0, 4}, nullptr, none, nullptr));
    STRATA_EXPECT_OK(EmbeddingBackward(this->stream(), {0, 8, 0, 4}, nullptr, none, nullptr));
    STRATA_EXPECT_OK(
        EmbeddingForward<T>(this->stream(), {3, 8, 0, 0}, tokens.data(), none, y.data()));
    STRATA_EXPECT_OK(
        EmbeddingBackward<T>(this->stream(), {3, 8, 0, 0}, tokens.data(), y.data(), nullptr));
    EXPECT_EQ(testing::Back(y.ToHost()), Floats(3 * 8));
    EXPECT_EQ(
        EmbeddingForward<T>(this->stream(), {3, 0, 2, 4}, tokens.data(), none, nullptr).message(),
        "embedding of 3 tokens in 0 channels, from a table of 4 from 2 on");
  });
}

}  // namespace
}  // namespace strata::kernels::cuda
