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

}  // namespace
}  // namespace strata::kernels
