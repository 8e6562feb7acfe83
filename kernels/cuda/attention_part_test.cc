#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_testing.h"

namespace strata::kernels::cuda {
namespace {

// What ranks have of each sequence: blocks r and 2n - 1 - r of 2n.
std::vector<RowSpan> SpansOf(int64_t ranks, int64_t rank, int64_t block) {
  return {{.first = 0, .count = block, .position = rank * block},
          {.first = block, .count = block, .position = (2 * ranks - 1 - rank) * block}};
}

// Columns [first, first + width) of the rows of [B, T, columns] that a rank has; visit(a place in
// these, one in all).
template <typename Visit>
void ForColumns(const AttentionShape& shape, const std::vector<RowSpan>& spans, int64_t columns,
                int64_t first, int64_t width, const Visit& visit) {
  int64_t place = 0;
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (const RowSpan& span : spans) {
      for (int64_t i = 0; i < span.count; ++i) {
        for (int64_t c = 0; c < width; ++c) {
          visit(place++, (b * shape.sequence + span.position + i) * columns + first + c);
        }
      }
    }
  }
}

template <typename T>
std::vector<T> ColumnsOf(const std::vector<T>& all, const AttentionShape& shape,
                         const std::vector<RowSpan>& spans, int64_t columns, int64_t first,
                         int64_t width) {
  std::vector<T> some;
  ForColumns(shape, spans, columns, first, width,
             [&](int64_t, int64_t at) { some.push_back(all[at]); });
  return some;
}

template <typename T>
class AttentionPartTest : public TypedCudaTest<T> {
 protected:
  // Attention by the ranks of a context group, each of which starts with its own keys and goes on
  // to those of the ranks before it, is attention of whole sequences. Results of bf16 are rounded
  // once for each part.
  void Check(const AttentionShape& shape, int64_t ranks, const Positions& positions = {}) {
    SCOPED_TRACE(NameOf(shape));
    const auto qkv = testing::RandomOf<T>(shape.batch * shape.sequence * QkvColumns(shape), 1);
    const auto dout =
        testing::RandomOf<T>(shape.batch * shape.sequence * shape.heads * shape.head_size, 2);
    const Doubles out = reference::AttentionForward(shape, testing::WidenOf(qkv), positions).out;
    const Doubles dqkv = reference::AttentionBackward(shape, testing::WidenOf(qkv),
                                                      testing::WidenOf(dout), positions);
    this->InEachOrder([&] {
      Floats all_out(out.size()), all_dqkv(dqkv.size());
      for (int64_t rank = 0; rank < ranks; ++rank) {
        RunRank(shape, ranks, rank, qkv, dout, positions, all_out, all_dqkv);
      }
      testing::ExpectClose(all_out, out, 2 * kOfOut<T>);
      testing::ExpectClose(all_dqkv, dqkv, 2 * kOfGradient<T>);
    });
  }

 private:
  void RunRank(const AttentionShape& shape, int64_t ranks, int64_t rank, const std::vector<T>& qkv,
               const std::vector<T>& dout, const Positions& positions, Floats& all_out,
               Floats& all_dqkv) {
    const int64_t block = shape.sequence / (2 * ranks), columns = QkvColumns(shape);
    const int64_t q = shape.heads * shape.head_size, kv = 2 * shape.kv_heads * shape.head_size;
    AttentionShape held = shape;
    held.sequence = 2 * block;
    const std::vector<RowSpan> own = SpansOf(ranks, rank, block);
    const int64_t rows = shape.batch * held.sequence;
    const cudaStream_t stream = this->stream();
    DeviceArray<T> own_qkv(ColumnsOf(qkv, shape, own, columns, 0, columns), stream),
        own_dout(ColumnsOf(dout, shape, own, q, 0, q), stream), out(rows * q, stream),
        own_dqkv(std::vector<T>(rows * columns, FromFloat<T>(std::nanf(""))), stream),
        keys(rows * kv, stream), dkeys(rows * kv, stream);
    DeviceArray<float> lse(rows * shape.heads, stream), delta(rows * shape.heads, stream);
    DeviceArray<int32_t> places(
        positions.empty() ? Positions() : ColumnsOf(positions, shape, own, 1, 0, 1), stream);
    const auto each = [&](const auto& body) {
      for (int64_t i = 0; i < ranks; ++i) {
        const std::vector<RowSpan> spans = SpansOf(ranks, (rank - i + ranks) % ranks, block);
        const auto of_rank = ColumnsOf(qkv, shape, spans, columns, q, kv);
        STRATA_EXPECT_CUDA(cudaMemcpyAsync(keys.data(), of_rank.data(), of_rank.size() * sizeof(T),
                                           cudaMemcpyHostToDevice, stream));
        body(AttentionPartShape{held, own, spans, positions.empty() ? nullptr : places.data()},
             i == 0);
      }
    };
    each([&](const AttentionPartShape& part, bool first) {
      STRATA_EXPECT_OK(AttentionPartForward<T>(stream, part, own_qkv.data(), keys.data(), first,
                                               out.data(), lse.data()));
    });
    STRATA_EXPECT_OK(AttentionDelta<T>(stream, held, own_dout.data(), out.data(), delta.data()));
    each([&](const AttentionPartShape& part, bool first) {
      STRATA_EXPECT_OK(AttentionPartBackward<T>(stream, part, own_dout.data(), own_qkv.data(),
                                                keys.data(), lse.data(), delta.data(), first,
                                                own_dqkv.data(), dkeys.data()));
      const Floats gradients = testing::Back(dkeys.ToHost());
      ForColumns(shape, part.keys, columns, q, kv,
                 [&](int64_t from, int64_t at) { all_dqkv[at] += gradients[from]; });
    });
    const Floats of_out = testing::Back(out.ToHost());
    ForColumns(shape, own, q, 0, q, [&](int64_t from, int64_t at) { all_out[at] = of_out[from]; });
    const Floats of_dqkv = testing::Back(own_dqkv.ToHost());
    ForColumns(shape, own, columns, 0, 1, [&](int64_t row, int64_t at) {
      for (int64_t c = 0; c < q; ++c) all_dqkv[at + c] = of_dqkv[row * columns + c];
    });
  }
};
TYPED_TEST_SUITE(AttentionPartTest, NumberTypes);

const AttentionShape kWhole = {
    .batch = 2, .sequence = 40, .heads = 2, .kv_heads = 1, .head_size = 8};
const AttentionShape kWindow = {.batch = 1,
                                .sequence = 60,
                                .heads = 2,
                                .kv_heads = 1,
                                .head_size = 24,
                                .scores = {.window = 20, .softcap = 5}};

TYPED_TEST(AttentionPartTest, OfARankAloneEqualsTheWhole) { this->Check(kWhole, 1); }

TYPED_TEST(AttentionPartTest, OfTheRanksOfAContextGroupEqualTheWhole) {
  this->Check(kWhole, 2);
  this->Check({.batch = 1, .sequence = 30, .heads = 2, .kv_heads = 2, .head_size = 5}, 3);
}

TYPED_TEST(AttentionPartTest, WithAWindowEqualTheWhole) { this->Check(kWindow, 2); }

TYPED_TEST(AttentionPartTest, InsideDocumentsEqualTheWhole) {
  this->Check(kWhole, 2, DocumentsOf(kWhole, {17, 1, 9, 30}));
  this->Check(kWindow, 2, DocumentsOf(kWindow, {35, 3, 40}));
}

}  // namespace
}  // namespace strata::kernels::cuda
