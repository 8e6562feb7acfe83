#include "kernels/cuda/attention.h"

#include "kernels/cuda/testing.h"
#include "kernels/reference/attention.h"

namespace strata::kernels::cuda {
namespace {

using reference::Positions;
using reference::QkvColumns;

// f32: 1e-5 of the largest value. bf16: half a unit of the last place of the result; of gradients
// twice that, for the roundings of `out` and of the gradients of scores.
template <typename T>
constexpr double kOfOut = kTolerance;
template <>
constexpr double kOfOut<BFloat16> = 0x1p-8;
template <typename T>
constexpr double kOfGradient = kTolerance;
template <>
constexpr double kOfGradient<BFloat16> = 0x1p-7;

// Heads that fill what kernels pad them to and heads that do not, of odd sizes and of multiples of
// 4 and 8; sequences inside a tile, of whole tiles, and past them; groups; windows inside a tile,
// across tiles, of one row and of more rows than there are; softcaps and scales.
const AttentionShape kShapes[] = {
    {.batch = 1, .sequence = 1, .heads = 1, .kv_heads = 1, .head_size = 8},
    {.batch = 2, .sequence = 7, .heads = 3, .kv_heads = 3, .head_size = 5},
    {.batch = 2, .sequence = 71, .heads = 4, .kv_heads = 2, .head_size = 16},
    {.batch = 1, .sequence = 130, .heads = 3, .kv_heads = 1, .head_size = 40},
    {.batch = 1, .sequence = 64, .heads = 1, .kv_heads = 1, .head_size = 64},
    {.batch = 1, .sequence = 67, .heads = 2, .kv_heads = 1, .head_size = 80},
    {.batch = 1, .sequence = 65, .heads = 1, .kv_heads = 1, .head_size = 128},
    {.batch = 1, .sequence = 33, .heads = 2, .kv_heads = 2, .head_size = 150},
    {.batch = 1, .sequence = 35, .heads = 1, .kv_heads = 1, .head_size = 192},
    {.batch = 1, .sequence = 40, .heads = 2, .kv_heads = 1, .head_size = 256},
    {.batch = 2,
     .sequence = 150,
     .heads = 2,
     .kv_heads = 1,
     .head_size = 16,
     .scores = {.window = 37}},
    {.batch = 1,
     .sequence = 140,
     .heads = 1,
     .kv_heads = 1,
     .head_size = 24,
     .scores = {.window = 80}},
    {.batch = 1,
     .sequence = 40,
     .heads = 3,
     .kv_heads = 1,
     .head_size = 10,
     .scores = {.window = 1}},
    {.batch = 1,
     .sequence = 40,
     .heads = 2,
     .kv_heads = 1,
     .head_size = 8,
     .scores = {.window = 100}},
    {.batch = 1,
     .sequence = 70,
     .heads = 2,
     .kv_heads = 1,
     .head_size = 24,
     .scores = {.softcap = 1.5F}},
    {.batch = 1,
     .sequence = 100,
     .heads = 2,
     .kv_heads = 2,
     .head_size = 32,
     .scores = {.window = 64, .softcap = 50, .scale = 0.3F}},
};

// Documents of the lengths given, over and over.
Positions DocumentsOf(const AttentionShape& shape, const std::vector<int32_t>& lengths) {
  Positions positions;
  size_t next = 0;
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t row = 0; row < shape.sequence;) {
      const int32_t length = lengths[next++ % lengths.size()];
      for (int32_t i = 0; i < length && row < shape.sequence; ++i, ++row) positions.push_back(i);
    }
  }
  return positions;
}

template <typename T>
class AttentionTest : public TypedCudaTest<T> {
 protected:
  void CheckForward(const AttentionShape& shape, const Positions& positions = {},
                    float magnitude = 1) {
    SCOPED_TRACE(Name(shape));
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

  void CheckBackward(const AttentionShape& shape, const Positions& positions = {}) {
    SCOPED_TRACE(Name(shape));
    const auto qkv = testing::RandomOf<T>(shape.batch * shape.sequence * QkvColumns(shape), 1);
    const auto forward = reference::AttentionForward(shape, testing::WidenOf(qkv), positions);
    const auto dout = testing::RandomOf<T>(forward.out.size(), 2);
    const auto out = testing::As<T>(Floats(forward.out.begin(), forward.out.end()));
    const Floats lse(forward.lse.begin(), forward.lse.end());
    const Doubles expected = reference::AttentionBackward(shape, testing::WidenOf(qkv),
                                                          testing::WidenOf(dout), positions);
    this->InEachOrder([&] {
      DeviceArray<T> device_qkv(qkv, this->stream()), device_out(out, this->stream()),
          device_dout(dout, this->stream()), dqkv(qkv.size(), this->stream());
      DeviceArray<float> device_lse(lse, this->stream()),
          workspace(AttentionBackwardWorkspaceBytes(shape) / sizeof(float), this->stream());
      DeviceArray<int32_t> rows(positions, this->stream());
      STRATA_EXPECT_OK(AttentionBackward<T>(
          this->stream(), shape, device_dout.data(), device_qkv.data(), device_out.data(),
          device_lse.data(), positions.empty() ? nullptr : rows.data(), dqkv.data(),
          workspace.data()));
      testing::ExpectClose(testing::Back(dqkv.ToHost()), expected, kOfGradient<T>);
    });
  }

 private:
  static std::string Name(const AttentionShape& shape) {
    return absl::StrCat("T ", shape.sequence, " H ", shape.heads, " K ", shape.kv_heads, " D ",
                        shape.head_size, " window ", shape.scores.window);
  }
};
TYPED_TEST_SUITE(AttentionTest, NumberTypes);

TYPED_TEST(AttentionTest, ForwardEqualsTheReference) {
  for (const AttentionShape& shape : kShapes) this->CheckForward(shape);
}

TYPED_TEST(AttentionTest, BackwardEqualsTheReference) {
  for (const AttentionShape& shape : kShapes) this->CheckBackward(shape);
}

const AttentionShape kOfDocuments[] = {
    {.batch = 2, .sequence = 150, .heads = 2, .kv_heads = 1, .head_size = 16},
    {.batch = 1,
     .sequence = 70,
     .heads = 2,
     .kv_heads = 1,
     .head_size = 40,
     .scores = {.window = 30, .softcap = 5}}};
const std::vector<int32_t> kLayouts[] = {{1}, {1000}, {63, 1, 70}, {2, 1, 97, 3, 50, 1, 1, 200}};

TYPED_TEST(AttentionTest, ForwardInsideDocumentsEqualsTheReference) {
  for (const AttentionShape& shape : kOfDocuments) {
    for (const auto& lengths : kLayouts) this->CheckForward(shape, DocumentsOf(shape, lengths));
  }
}

TYPED_TEST(AttentionTest, BackwardInsideDocumentsEqualsTheReference) {
  for (const AttentionShape& shape : kOfDocuments) {
    for (const auto& lengths : kLayouts) this->CheckBackward(shape, DocumentsOf(shape, lengths));
  }
}

TYPED_TEST(AttentionTest, LargeScoresNeitherOverflowNorVanish) {
  this->CheckForward({.batch = 1, .sequence = 140, .heads = 1, .kv_heads = 1, .head_size = 8}, {},
                     6);
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
