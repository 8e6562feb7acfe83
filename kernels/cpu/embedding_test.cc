#include "kernels/embedding.h"

#include "kernels/cpu/test_util.h"
#include "kernels/reference/embedding.h"

namespace strata::kernels {
namespace {

using testing::Doubles;
using testing::Floats;

TEST(Embedding, ForwardCopiesRowsAndBackwardAddsThemWithRepeats) {
  constexpr struct {
    int64_t rows, channels, vocab;
  } kShapes[] = {{1, 1, 1}, {9, 7, 3}, {100, 45, 11}, {64, 192, 256}};
  for (const auto& shape : kShapes) {
    const auto [rows, channels, vocab] = shape;
    std::vector<int32_t> tokens(rows);
    for (int64_t row = 0; row < rows; ++row) tokens[row] = (row * row + 1) % shape.vocab;
    const Floats table = testing::Random(vocab * channels, 1);
    const Floats dy = testing::Random(rows * channels, 2);
    const Floats result = testing::RunWithThreads([&](const Context& c) {
      Floats y(shape.rows * shape.channels), dtable = table;
      const EmbeddingShape whole{shape.rows, shape.channels, 0, shape.vocab};
      EmbeddingForward(c, whole, tokens.data(), table.data(), y.data());
      EmbeddingBackward(c, whole, tokens.data(), dy.data(), dtable.data());
      return testing::Concat({y, dtable});
    });
    const Doubles y = reference::EmbeddingForward(channels, tokens, testing::Widen(table));
    const Doubles dtable =
        reference::EmbeddingBackward(channels, tokens, testing::Widen(dy), testing::Widen(table));
    testing::ExpectClose(result, testing::Concat({y, dtable}), 1e-6);
  }
}

TEST(Embedding, PartsOfATableTogetherGiveTheWholeOnesBits) {
  const int64_t rows = 50, channels = 19, vocab = 12, parts = 3, count = vocab / parts;
  std::vector<int32_t> tokens(rows);
  for (int64_t row = 0; row < rows; ++row) tokens[row] = (row * 5 + 3) % vocab;
  const Floats table = testing::Random(vocab * channels, 1);
  const Floats dy = testing::Random(rows * channels, 2);
  device::ThreadPool pool(2);
  const Context context{&pool};
  Floats y(rows * channels), dtable(vocab * channels);
  const EmbeddingShape whole{rows, channels, 0, vocab};
  EmbeddingForward(context, whole, tokens.data(), table.data(), y.data());
  EmbeddingBackward(context, whole, tokens.data(), dy.data(), dtable.data());
  Floats sum(rows * channels), joined(vocab * channels);
  for (int64_t part = 0; part < parts; ++part) {
    const EmbeddingShape shape{rows, channels, part * count, count};
    Floats own(rows * channels, -1);
    EmbeddingForward(context, shape, tokens.data(), table.data() + part * count * channels,
                     own.data());
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += own[i];
    EmbeddingBackward(context, shape, tokens.data(), dy.data(),
                      joined.data() + part * count * channels);
  }
  EXPECT_EQ(sum, y);
  EXPECT_EQ(joined, dtable);
}

template <typename T>
void ExpectScaledRows() {
  const EmbeddingShape shape{.rows = 30, .channels = 45, .first = 2, .count = 11, .scale = 5.5f};
  std::vector<int32_t> tokens(shape.rows);
  for (int64_t row = 0; row < shape.rows; ++row) {
    tokens[row] = static_cast<int32_t>((row * row + 1) % 15);
  }
  const std::vector<T> table = testing::RandomOf<T>(shape.count * shape.channels, 1);
  const std::vector<T> dy = testing::RandomOf<T>(shape.rows * shape.channels, 2);
  const Floats before = testing::Random(table.size(), 3);
  const Floats result = testing::RunWithThreads([&](const Context& c) {
    std::vector<T> y(dy.size());
    EmbeddingForward(c, shape, tokens.data(), table.data(), y.data());
    return testing::Back(y);
  });
  const Floats gradient = testing::RunWithThreads([&](const Context& c) {
    Floats dtable = before;
    EmbeddingBackward(c, shape, tokens.data(), dy.data(), dtable.data());
    return dtable;
  });
  Doubles y(dy.size()), dtable = testing::Widen(before);
  for (size_t i = 0; i < y.size(); ++i) {
    const int64_t row = tokens[i / shape.channels] - shape.first;
    if (row < 0 || row >= shape.count) continue;
    const int64_t at = row * shape.channels + static_cast<int64_t>(i) % shape.channels;
    y[i] = 5.5 * ToFloat(table[at]);
    dtable[at] += 5.5 * ToFloat(dy[i]);
  }
  testing::ExpectRounded<T>(result, y, 1e-7);
  testing::ExpectClose(gradient, dtable, 1e-6);
}

TEST(Embedding, OfEveryTypeWithAScale_MultipliesRowsAndTheirGradients) {
  ExpectScaledRows<float>();
  ExpectScaledRows<BFloat16>();
  ExpectScaledRows<Float16>();
}

template <typename T>
void ExpectPositions(const int32_t* positions, int64_t first) {
  const PositionsShape shape{.rows = 14, .sequence = 7, .channels = 45, .start = 3, .first = first};
  const int64_t context = 12;
  const std::vector<T> table = testing::RandomOf<T>(context * shape.channels, 1);
  const std::vector<T> y = testing::RandomOf<T>(shape.rows * shape.channels, 2);
  const Floats before = testing::Random(table.size(), 3);
  const Floats result = testing::RunWithThreads([&](const Context& c) {
    std::vector<T> sum = y;
    AddPositions(c, shape, table.data(), positions, sum.data());
    return testing::Back(sum);
  });
  const Floats gradient = testing::RunWithThreads([&](const Context& c) {
    Floats dtable = before;
    PositionsGradient(c, shape, y.data(), positions, dtable.data());
    return dtable;
  });
  Doubles sum, dtable = testing::Widen(before);
  for (int64_t i = 0; i < shape.rows * shape.channels; ++i) {
    const int64_t row = i / shape.channels;
    const int64_t position = positions != nullptr ? positions[row] : 3 + (first + row) % 7;
    const int64_t at = position * shape.channels + i % shape.channels;
    sum.push_back(static_cast<double>(ToFloat(y[i])) + ToFloat(table[at]));
    dtable[at] += ToFloat(y[i]);
  }
  testing::ExpectRounded<T>(result, sum, 1e-7);
  testing::ExpectClose(gradient, dtable, 1e-6);
}

TEST(Positions, AreAddedByPlaceOrAsGivenAndGatherGradients) {
  const int32_t given[] = {0, 1, 2, 0, 1, 2, 3, 11, 0, 1, 0, 1, 2, 3};
  for (const int32_t* positions : {static_cast<const int32_t*>(nullptr), given}) {
    ExpectPositions<float>(positions, 0);
    ExpectPositions<float>(positions, 5);
    ExpectPositions<BFloat16>(positions, 2);
    ExpectPositions<Float16>(positions, 2);
  }
}

}  // namespace
}  // namespace strata::kernels
