#include "kernels/cuda/attention.h"

#include "kernels/cuda/attention_testing.h"

namespace strata::kernels::cuda {
namespace {

template <typename T>
class AttentionTest : public TypedCudaTest<T> {
 protected:
  void Check(const AttentionShape& shape, const Positions& positions = {}, float magnitude = 1) {
    SCOPED_TRACE(NameOf(shape));
    const auto qkv =
        testing::RandomOf<T>(shape.batch * shape.sequence * QkvColumns(shape), 1, magnitude);
    const auto expected = reference::AttentionForward(shape, testing::WidenOf(qkv), positions);
    this->InEachOrder([&] {
      DeviceArray<T> device_qkv(qkv, this->stream()), out(expected.out.size(), this->stream());
      DeviceArray<float> lse(expected.lse.size(), this->stream());
      DeviceArray<int32_t> rows(positions, this->stream());
      STRATA_EXPECT_OK(AttentionForward<T>(this->stream(), shape, device_qkv.data(),
                                           positions.empty() ? nullptr : rows.data(), out.data(),
                                           lse.data()));
      testing::ExpectClose(testing::Back(out.ToHost()), expected.out, kOfOut<T>);
      testing::ExpectClose(lse.ToHost(), expected.lse, kTolerance);
    });
  }
};
TYPED_TEST_SUITE(AttentionTest, NumberTypes);

TYPED_TEST(AttentionTest, EqualsTheReference) {
  for (const AttentionShape& shape : Some<TypeParam>(kShapes, 3)) this->Check(shape);
}

TYPED_TEST(AttentionTest, OfHeadsOfEverySizeEqualsTheReference) {
  for (const AttentionShape& shape : kPadded<TypeParam>) this->Check(shape);
}

TYPED_TEST(AttentionTest, InsideDocumentsEqualsTheReference) {
  for (const AttentionShape& shape : Some<TypeParam>(kOfDocuments, 1)) {
    for (const auto& lengths : kLengths) this->Check(shape, DocumentsOf(shape, lengths));
  }
}

TYPED_TEST(AttentionTest, OfLargeScoresNeitherOverflowsNorVanishes) {
  AttentionShape shape = {.batch = 1, .sequence = 70, .heads = 1, .kv_heads = 1, .head_size = 8};
  this->Check(shape, {}, 6);
  shape.scores.softcap = 0.3F;  // e^2y of its tanh overflows
  this->Check(shape, {}, 6);
}

// Packets and tensor cores need rows at addresses that 16 divides.
TYPED_TEST(AttentionTest, OfRowsThatAreNotAlignedEqualsTheReference) {
  using T = TypeParam;
  const AttentionShape shape = {
      .batch = 1, .sequence = 20, .heads = 1, .kv_heads = 1, .head_size = 8};
  const auto qkv = testing::RandomOf<T>(shape.sequence * QkvColumns(shape) + 1, 1);
  const auto read = std::vector<T>(qkv.begin() + 1, qkv.end());
  const auto expected = reference::AttentionForward(shape, testing::WidenOf(read));
  this->InEachOrder([&] {
    DeviceArray<T> device_qkv(qkv, this->stream()), out(expected.out.size(), this->stream());
    DeviceArray<float> lse(expected.lse.size(), this->stream());
    STRATA_EXPECT_OK(AttentionForward<T>(this->stream(), shape, device_qkv.data() + 1, nullptr,
                                         out.data(), lse.data()));
    testing::ExpectClose(testing::Back(out.ToHost()), expected.out, kOfOut<T>);
  });
}

TYPED_TEST(AttentionTest, WhatNoKernelTakesIsAnError) {
  using T = TypeParam;
  const auto attend = [&](const AttentionShape& shape) {
    return AttentionForward<T>(this->stream(), shape, nullptr, nullptr, nullptr, nullptr).code();
  };
  this->InEachOrder([&] {
    EXPECT_EQ(attend({1, 8, 3, 2, 8}), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(attend({1, 8, 2, 2, 264}), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(attend({1, -8, 2, 2, 8}), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(attend({0, 8, 2, 2, 8}), absl::StatusCode::kOk);
  });
}

}  // namespace
}  // namespace strata::kernels::cuda
