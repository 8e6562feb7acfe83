#include "kernels/cuda/headnorm.h"

#include "kernels/cuda/testing.h"
#include "kernels/reference/headnorm.h"

namespace strata::kernels::cuda {
namespace {

constexpr float kEpsilon = 1e-6f;

// By packets and by elements; heads of one lane, of some of a warp's, of more than a warp takes at
// once; teams without a head at the end, and more heads than blocks take in one round.
constexpr HeadNormShape kShapes[] = {
    {1, 1, 0, 1},   {3, 4, 2, 6, true},    {5, 2, 1, 8},  {7, 3, 1, 64},   {3, 2, 2, 128, true},
    {2, 1, 1, 288}, {700, 12, 4, 8, true}, {2, 1, 1, 50}, {1, 150, 3, 64}, {2, 1, 1, 107}};

kernels::HeadNormShape OfReference(const HeadNormShape& s) {
  return {s.rows, s.heads, s.kv_heads, s.head_size, s.plus_one};
}

template <typename T>
class HeadNormTest : public TypedCudaTest<T> {};
TYPED_TEST_SUITE(HeadNormTest, NumberTypes);

TYPED_TEST(HeadNormTest, ForwardAndReplayEqualTheReferenceInPlaceAndNot) {
  using T = TypeParam;
  for (const HeadNormShape& shape : kShapes) {
    const auto qkv = testing::RandomOf<T>(shape.rows * shape.width(), 1, 3);
    const auto wq = testing::RandomOf<T>(shape.head_size, 2),
               wk = testing::RandomOf<T>(shape.head_size, 3);
    const auto expected =
        reference::HeadNormForward(OfReference(shape), kEpsilon, testing::WidenOf(qkv),
                                   testing::WidenOf(wq), testing::WidenOf(wk));
    this->InEachOrder([&] {
      cudaStream_t stream = this->stream();
      DeviceArray<T> in(qkv, stream), in_place(qkv, stream), again(qkv, stream),
          out(qkv.size(), stream), q(wq, stream), k(wk, stream);
      DeviceArray<float> rstd(shape.rows * shape.norms(), stream);
      STRATA_EXPECT_OK(HeadNormForward(stream, shape, kEpsilon, in.data(), q.data(), k.data(),
                                       out.data(), rstd.data()));
      ExpectNumbers(out.ToHost(), expected.out);
      ExpectNumbers(rstd.ToHost(), expected.rstd);
      STRATA_EXPECT_OK(HeadNormForward(stream, shape, kEpsilon, in_place.data(), q.data(), k.data(),
                                       in_place.data(), rstd.data()));
      STRATA_EXPECT_OK(HeadNormReplay(stream, shape, again.data(), q.data(), k.data(), rstd.data(),
                                      again.data()));
      EXPECT_EQ(testing::Back(in_place.ToHost()), testing::Back(out.ToHost()));
      EXPECT_EQ(testing::Back(again.ToHost()), testing::Back(out.ToHost()));
    });
  }
}

TYPED_TEST(HeadNormTest, BackwardEqualsTheReferenceAndAddsToTheWeightsGradients) {
  using T = TypeParam;
  for (const HeadNormShape& shape : kShapes) {
    const auto qkv = testing::RandomOf<T>(shape.rows * shape.width(), 1, 3);
    const auto dout = testing::RandomOf<T>(qkv.size(), 2);
    const auto wq = testing::RandomOf<T>(shape.head_size, 3),
               wk = testing::RandomOf<T>(shape.head_size, 4);
    const Floats rstd = testing::Random(shape.rows * shape.norms(), 5),
                 dwq_before = testing::Random(shape.head_size, 6),
                 dwk_before = testing::Random(shape.head_size, 7);
    auto expected = reference::HeadNormBackward(OfReference(shape), testing::WidenOf(dout),
                                                testing::WidenOf(qkv), testing::WidenOf(wq),
                                                testing::WidenOf(wk), testing::Widen(rstd));
    for (int64_t i = 0; i < shape.head_size; ++i) {
      expected.dwq[i] += dwq_before[i];
      expected.dwk[i] += dwk_before[i];
    }
    this->InEachOrder([&] {
      cudaStream_t stream = this->stream();
      DeviceArray<T> gradient(dout, stream), values(qkv, stream), q(wq, stream), k(wk, stream),
          frozen(qkv.size(), stream);
      DeviceArray<float> scales(rstd, stream), dwq(dwq_before, stream), dwk(dwk_before, stream),
          workspace(HeadNormBackwardWorkspaceBytes(shape) / sizeof(float), stream);
      STRATA_EXPECT_OK(HeadNormBackward<T>(stream, shape, gradient.data(), values.data(), q.data(),
                                           k.data(), scales.data(), frozen.data(), nullptr, nullptr,
                                           nullptr));
      STRATA_EXPECT_OK(HeadNormBackward(stream, shape, gradient.data(), values.data(), q.data(),
                                        k.data(), scales.data(), gradient.data(), dwq.data(),
                                        dwk.data(), workspace.data()));
      ExpectNumbers(frozen.ToHost(), expected.dqkv);
      EXPECT_EQ(testing::Back(gradient.ToHost()), testing::Back(frozen.ToHost()));
      ExpectNumbers(dwq.ToHost(), expected.dwq);
      ExpectNumbers(dwk.ToHost(), expected.dwk);
    });
  }
}

TYPED_TEST(HeadNormTest, LargeHeadsAreRefusedOnlyWithAWeightsGradientAndNoRowsAreNoWork) {
  using T = TypeParam;
  this->InEachOrder([&] {
    float place = 0;
    T* none = nullptr;
    EXPECT_EQ(HeadNormBackward(this->stream(), {1, 1, 1, kMostHeadNormSize + 1}, none, none, none,
                               none, &place, none, &place, &place, &place)
                  .message(),
              "gradients of a head norm's weights of 769 elements: at most 768");
    STRATA_EXPECT_OK(HeadNormReplay(this->stream(), {0, 1, 1, 8}, none, none, none, &place, none));
    EXPECT_EQ(
        HeadNormReplay(this->stream(), {3, 0, 0, 8}, none, none, none, &place, none).message(),
        "head norm of 3 rows of 0 + 2 * 0 heads of 8");
  });
}

}  // namespace
}  // namespace strata::kernels::cuda
