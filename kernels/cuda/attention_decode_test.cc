#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_testing.h"

namespace strata::kernels::cuda {
namespace {

// Rows [first, first + count) of each sequence of [B, T, columns].
template <typename T>
std::vector<T> RowsOf(const std::vector<T>& all, int64_t batch, int64_t first, int64_t count,
                      int64_t columns) {
  const int64_t sequence = static_cast<int64_t>(all.size()) / batch / columns;
  std::vector<T> rows;
  for (int64_t b = 0; b < batch; ++b) {
    const auto begin = all.begin() + (b * sequence + first) * columns;
    rows.insert(rows.end(), begin, begin + count * columns);
  }
  return rows;
}

// Rows of each sequence, with rows of a value behind them.
template <typename T>
std::vector<T> Padded(const std::vector<T>& rows, int64_t batch, int64_t real, int64_t given,
                      T value) {
  const int64_t each = static_cast<int64_t>(rows.size()) / batch;
  std::vector<T> padded;
  for (int64_t b = 0; b < batch; ++b) {
    padded.insert(padded.end(), rows.begin() + b * each, rows.begin() + (b + 1) * each);
    padded.insert(padded.end(), each / real * (given - real), value);
  }
  return padded;
}

// Rows that are real, and rows that there are; the last ones reach beyond the cache.
constexpr struct { int64_t rows, given; } kPieces[] = {{61, 64}, {1, 1}, {3, 3}, {1, 1}, {4, 20}};

template <typename T>
class AttentionDecodeTest : public TypedCudaTest<T> {
 protected:
  // Decodes a sequence in pieces: it is attention over all of it.
  void Check(const AttentionShape& shape) {
    SCOPED_TRACE(NameOf(shape));
    constexpr int64_t kCapacity = 80;
    const int64_t columns = QkvColumns(shape), out_columns = shape.heads * shape.head_size;
    const auto qkv = testing::RandomOf<T>(shape.batch * shape.sequence * columns, 1);
    const Doubles expected = reference::AttentionForward(shape, testing::WidenOf(qkv)).out;
    this->InEachOrder([&] {
      const int64_t cached = shape.batch * kCapacity * shape.kv_heads * shape.head_size;
      DeviceArray<T> k_cache(cached, this->stream()), v_cache(cached, this->stream());
      int64_t position = 0;
      for (const auto& [rows, given] : kPieces) {
        const DecodeShape decode = {.batch = shape.batch,
                                    .rows = given,
                                    .context = kCapacity,
                                    .heads = shape.heads,
                                    .kv_heads = shape.kv_heads,
                                    .head_size = shape.head_size,
                                    .scores = shape.scores};
        DeviceArray<T> piece(Padded(RowsOf(qkv, shape.batch, position, rows, columns), shape.batch,
                                    rows, given, T{1}),
                             this->stream()),
            out(shape.batch * given * out_columns, this->stream());
        DeviceArray<double> found(Doubles{static_cast<double>(position), static_cast<double>(rows)},
                                  this->stream());
        const DecodeScalars scalars{.position = found.data(), .rows = found.data() + 1};
        STRATA_EXPECT_OK(AppendToCache(this->stream(), decode, scalars, piece.data(),
                                       k_cache.data(), v_cache.data(), out.data()));
        STRATA_EXPECT_OK(DecodeAttention(this->stream(), decode, scalars, piece.data(),
                                         k_cache.data(), v_cache.data(), out.data()));
        testing::ExpectClose(testing::Back(out.ToHost()),
                             Padded(RowsOf(expected, shape.batch, position, rows, out_columns),
                                    shape.batch, rows, given, 0.0),
                             kOfOut<T>);
        position += rows;
      }
      EXPECT_EQ(position, shape.sequence);
    });
  }
};
TYPED_TEST_SUITE(AttentionDecodeTest, NumberTypes);

TYPED_TEST(AttentionDecodeTest, InPiecesEqualsTheWholeSequence) {
  this->Check({.batch = 2, .sequence = 70, .heads = 4, .kv_heads = 2, .head_size = 24});
  this->Check({.batch = 1, .sequence = 70, .heads = 3, .kv_heads = 1, .head_size = 5});
}

TYPED_TEST(AttentionDecodeTest, WithAWindowAndASoftcapEqualsTheWholeSequence) {
  this->Check({.batch = 1,
               .sequence = 70,
               .heads = 2,
               .kv_heads = 1,
               .head_size = 24,
               .scores = {.window = 33, .softcap = 3, .scale = 0.4F}});
}

}  // namespace
}  // namespace strata::kernels::cuda
