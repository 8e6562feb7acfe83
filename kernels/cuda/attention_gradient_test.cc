#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_testing.h"

namespace strata::kernels::cuda {
namespace {

template <typename T>
class AttentionGradientTest : public TypedCudaTest<T> {
 protected:
  void Check(const AttentionShape& shape, const Positions& positions = {}) {
    SCOPED_TRACE(NameOf(shape));
    const auto qkv = testing::RandomOf<T>(shape.batch * shape.sequence * QkvColumns(shape), 1);
    const auto forward = reference::AttentionForward(shape, testing::WidenOf(qkv), positions);
    const auto dout = testing::RandomOf<T>(forward.out.size(), 2);
    const auto out = RoundedOf<T>(forward.out);
    const auto lse = RoundedOf<float>(forward.lse);
    const Doubles expected = reference::AttentionBackward(shape, testing::WidenOf(qkv),
                                                          testing::WidenOf(dout), positions);
    Floats first;  // the same bits in every order
    this->InEachOrder([&] {
      DeviceArray<T> device_qkv(qkv, this->stream()), device_out(out, this->stream()),
          device_dout(dout, this->stream()), dqkv(qkv.size(), this->stream());
      DeviceArray<float> device_lse(lse, this->stream()),
          workspace(AttentionBackwardWorkspaceBytes(shape) / sizeof(float), this->stream());
      DeviceArray<int32_t> rows(positions, this->stream());
      STRATA_EXPECT_OK(AttentionBackward<T>(this->stream(), shape, device_dout.data(),
                                            device_qkv.data(), device_out.data(), device_lse.data(),
                                            positions.empty() ? nullptr : rows.data(), dqkv.data(),
                                            workspace.data()));
      const Floats result = testing::Back(dqkv.ToHost());
      testing::ExpectClose(result, expected, kOfGradient<T>);
      if (first.empty()) first = result;
      EXPECT_TRUE(testing::SameBits(result, first));
    });
  }
};
TYPED_TEST_SUITE(AttentionGradientTest, NumberTypes);

TYPED_TEST(AttentionGradientTest, EqualsTheReference) {
  for (const AttentionShape& shape : Some<TypeParam>(kShapes, 3)) this->Check(shape);
}

TYPED_TEST(AttentionGradientTest, OfHeadsOfEverySizeEqualsTheReference) {
  for (const AttentionShape& shape : kPadded<TypeParam>) this->Check(shape);
}

// So many key heads that a group's three are in two parts; f32 has no parts, f16 the same ones.
using PartsOfAGroupTest = AttentionGradientTest<BFloat16>;
TEST_F(PartsOfAGroupTest, OfUnequalSizesEqualTheReference) {
  Check({.batch = 256, .sequence = 2, .heads = 3, .kv_heads = 1, .head_size = 8});
}

TYPED_TEST(AttentionGradientTest, InsideDocumentsEqualsTheReference) {
  for (const AttentionShape& shape : Some<TypeParam>(kOfDocuments, 1)) {
    for (const auto& lengths : kLengths) this->Check(shape, DocumentsOf(shape, lengths));
  }
}

TYPED_TEST(AttentionGradientTest, DeltaIsTheProductOfOutAndItsGradient) {
  using T = TypeParam;
  for (const int64_t head_size : {1, 5, 24, 200}) {
    const AttentionShape shape = {
        .batch = 2, .sequence = 3, .heads = 5, .kv_heads = 5, .head_size = head_size};
    const auto out = testing::RandomOf<T>(2 * 3 * 5 * head_size, 1);
    const auto dout = testing::RandomOf<T>(out.size(), 2);
    Doubles expected(2 * 5 * 3);
    for (int64_t i = 0; i < 2 * 3 * 5; ++i) {
      const int64_t b = i / 15, t = i / 5 % 3, h = i % 5;
      for (int64_t d = 0; d < head_size; ++d) {
        expected[(b * 5 + h) * 3 + t] +=
            double{ToFloat(out[i * head_size + d])} * ToFloat(dout[i * head_size + d]);
      }
    }
    this->InEachOrder([&] {
      DeviceArray<T> device_out(out, this->stream()), device_dout(dout, this->stream());
      DeviceArray<float> delta(expected.size(), this->stream());
      STRATA_EXPECT_OK(AttentionDelta<T>(this->stream(), shape, device_dout.data(),
                                         device_out.data(), delta.data()));
      testing::ExpectClose(delta.ToHost(), expected, kTolerance);
    });
  }
}

}  // namespace
}  // namespace strata::kernels::cuda
