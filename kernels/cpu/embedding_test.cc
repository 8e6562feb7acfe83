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
      EmbeddingForward(c, shape.rows, shape.channels, tokens.data(), table.data(), y.data());
      EmbeddingBackward(c, shape.rows, shape.channels, tokens.data(), dy.data(), dtable.data());
      return testing::Concat({y, dtable});
    });
    const Doubles y = reference::EmbeddingForward(channels, tokens, testing::Widen(table));
    const Doubles dtable =
        reference::EmbeddingBackward(channels, tokens, testing::Widen(dy), testing::Widen(table));
    testing::ExpectClose(result, testing::Concat({y, dtable}), 1e-6);
  }
}

}  // namespace
}  // namespace strata::kernels
