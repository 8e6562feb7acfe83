#include "kernels/cuda/rmsnorm.h"

#include <iterator>
#include <vector>

#include "kernels/cuda/testing.h"
#include "kernels/reference/rmsnorm.h"

namespace strata::kernels::cuda {
namespace {

constexpr float kEpsilon = 1e-5f;

// By packets and by elements, with fewer and more columns than a warp or a team of warps holds; the
// last asks for more than 48 KiB of shared memory.
constexpr RmsNormShape kShapes[] = {{1, 1},    {3, 7},         {5, 8, true}, {9, 768},
                                    {2, 2056}, {259, 9, true}, {2, 1161},    {1, 12808}};
// With more rows than teams of a warp each, and of several.
constexpr RmsNormShape kManyRows[] = {{1544, 8}, {257, 289}};

Doubles Weights(const RmsNormShape& shape, const Doubles& w) {
  Doubles weights = w;
  for (double& weight : weights) weight += shape.plus_one ? 1 : 0;
  return weights;
}

template <typename T>
class RmsNormTest : public TypedCudaTest<T> {};
TYPED_TEST_SUITE(RmsNormTest, NumberTypes);

TYPED_TEST(RmsNormTest, ForwardInPlaceEqualsTheReference) {
  using T = TypeParam;
  for (const RmsNormShape& shape : kShapes) {
    const auto x = testing::RandomOf<T>(shape.rows * shape.channels, 1, 3);
    const auto w = testing::RandomOf<T>(shape.channels, 2);
    const auto expected =
        reference::RmsNormForward(shape.rows, shape.channels, kEpsilon, testing::WidenOf(x),
                                  Weights(shape, testing::WidenOf(w)));
    this->InEachOrder([&] {
      DeviceArray<T> values(x, this->stream()), weights(w, this->stream());
      DeviceArray<float> rstd(shape.rows, this->stream());
      STRATA_EXPECT_OK(RmsNormForward(this->stream(), shape, kEpsilon, values.data(),
                                      weights.data(), values.data(), rstd.data()));
      ExpectNumbers(values.ToHost(), expected.y);
      ExpectNumbers(rstd.ToHost(), expected.rstd);
    });
  }
}

TYPED_TEST(RmsNormTest, AddAndNormIsTheNormOfTheRoundedSum) {
  using T = TypeParam;
  for (const RmsNormShape& shape : kShapes) {
    const auto x = testing::RandomOf<T>(shape.rows * shape.channels, 1);
    const auto branch = testing::RandomOf<T>(x.size(), 2);
    const auto w = testing::RandomOf<T>(shape.channels, 3);
    Floats sums = testing::Back(x);
    for (size_t i = 0; i < x.size(); ++i) sums[i] += ToFloat(branch[i]);
    const Doubles sum = testing::WidenOf(testing::As<T>(sums));
    const auto expected = reference::RmsNormForward(shape.rows, shape.channels, kEpsilon, sum,
                                                    Weights(shape, testing::WidenOf(w)));
    this->InEachOrder([&] {
      DeviceArray<T> dx(x, this->stream()), dbranch(branch, this->stream()), dw(w, this->stream()),
          y(x.size(), this->stream());
      DeviceArray<float> rstd(shape.rows, this->stream());
      STRATA_EXPECT_OK(AddRmsNormForward(this->stream(), shape, kEpsilon, dx.data(), dbranch.data(),
                                         dw.data(), dx.data(), y.data(), rstd.data()));
      EXPECT_EQ(testing::WidenOf(dx.ToHost()), sum);
      ExpectNumbers(y.ToHost(), expected.y);
      ExpectNumbers(rstd.ToHost(), expected.rstd);
    });
  }
}

TYPED_TEST(RmsNormTest, ReplayInPlaceGivesTheForwardsBits) {
  using T = TypeParam;
  for (const RmsNormShape& shape : kShapes) {
    const auto x = testing::RandomOf<T>(shape.rows * shape.channels, 1, 3);
    const auto w = testing::RandomOf<T>(shape.channels, 2);
    this->InEachOrder([&] {
      cudaStream_t stream = this->stream();
      DeviceArray<T> values(x, stream), weights(w, stream), y(x.size(), stream);
      DeviceArray<float> rstd(shape.rows, stream);
      STRATA_EXPECT_OK(RmsNormForward(stream, shape, kEpsilon, values.data(), weights.data(),
                                      y.data(), rstd.data()));
      STRATA_EXPECT_OK(
          RmsNormReplay(stream, shape, values.data(), weights.data(), rstd.data(), values.data()));
      EXPECT_EQ(testing::Back(values.ToHost()), testing::Back(y.ToHost()));
    });
  }
}

TYPED_TEST(RmsNormTest, BackwardEqualsTheReferenceAndAddsToTheWeightsGradient) {
  using T = TypeParam;
  std::vector<RmsNormShape> shapes(std::begin(kShapes), std::end(kShapes));
  shapes.insert(shapes.end(), std::begin(kManyRows), std::end(kManyRows));
  for (const RmsNormShape& shape : shapes) {
    const auto x = testing::RandomOf<T>(shape.rows * shape.channels, 1, 3);
    const auto dy = testing::RandomOf<T>(x.size(), 2), w = testing::RandomOf<T>(shape.channels, 3);
    const auto before = testing::RandomOf<T>(x.size(), 4);
    const Floats rstd = testing::Random(shape.rows, 5), dw_before = testing::Random(w.size(), 6);
    auto expected = reference::RmsNormBackward(
        shape.rows, shape.channels, testing::WidenOf(dy), testing::WidenOf(x),
        Weights(shape, testing::WidenOf(w)), testing::Widen(rstd));
    Doubles accumulated = expected.dx;
    for (size_t i = 0; i < x.size(); ++i) accumulated[i] += ToFloat(before[i]);
    for (size_t i = 0; i < w.size(); ++i) expected.dw[i] += dw_before[i];
    this->InEachOrder([&] {
      cudaStream_t stream = this->stream();
      DeviceArray<T> gradient(dy, stream), values(x, stream), weights(w, stream),
          added(before, stream);
      DeviceArray<float> scales(rstd, stream), dw(dw_before, stream),
          workspace(RmsNormBackwardWorkspaceBytes(shape.rows, shape.channels) / sizeof(float),
                    stream);
      STRATA_EXPECT_OK(RmsNormBackward<T>(stream, shape, gradient.data(), values.data(),
                                          weights.data(), scales.data(), true, added.data(),
                                          nullptr, nullptr));
      STRATA_EXPECT_OK(RmsNormBackward(stream, shape, gradient.data(), values.data(),
                                       weights.data(), scales.data(), false, gradient.data(),
                                       dw.data(), workspace.data()));
      ExpectNumbers(added.ToHost(), accumulated);
      ExpectNumbers(gradient.ToHost(), expected.dx);
      ExpectNumbers(dw.ToHost(), expected.dw);
    });
  }
}

TYPED_TEST(RmsNormTest, MoreChannelsThanSharedMemoryHoldsAreRefusedOnlyWithAWeightsGradient) {
  using T = TypeParam;
  const RmsNormShape shape{1, kMostRmsNormChannels + 8};
  this->InEachOrder([&] {
    float place = 0;
    T* none = nullptr;
    EXPECT_EQ(RmsNormBackward(this->stream(), shape, none, none, none, &place, false, none, &place,
                              &place)
                  .code(),
              absl::StatusCode::kInvalidArgument);
    STRATA_EXPECT_OK(RmsNormBackward(this->stream(), {0, shape.channels}, none, none, none, &place,
                                     false, none, &place, &place));
    STRATA_EXPECT_OK(RmsNormForward<T>(this->stream(), {0, 8}, kEpsilon, none, none, none, &place));
    EXPECT_EQ(RmsNormReplay<T>(this->stream(), {3, 0}, none, none, &place, none).message(),
              "RMS norm of 3 rows of 0 channels");
  });
}

}  // namespace
}  // namespace strata::kernels::cuda
