#include "kernels/cuda/layernorm.h"

#include <iterator>
#include <vector>

#include "kernels/cuda/testing.h"
#include "kernels/reference/layernorm.h"

namespace strata::kernels::cuda {
namespace {

constexpr float kEpsilon = 1e-5f;

// By packets and by elements, with fewer and more columns than a warp or a team of warps holds.
constexpr LayerNormShape kShapes[] = {{1, 1},   {3, 7},    {5, 8},    {9, 768},
                                      {2, 333}, {1, 2056}, {2, 1161}, {1, 9248}};
// With more rows than teams of a warp each, and of several.
constexpr LayerNormShape kManyRows[] = {{1544, 8}, {257, 289}};

// Values around a mean that is large beside their spread.
template <typename T>
std::vector<T> Values(int64_t count, uint64_t key) {
  Floats values = testing::Random(count, key, 3);
  for (float& value : values) value += 20;
  return testing::As<T>(values);
}

template <typename T>
class LayerNormTest : public TypedCudaTest<T> {};
TYPED_TEST_SUITE(LayerNormTest, NumberTypes);

TYPED_TEST(LayerNormTest, ForwardAndReplayInPlaceEqualTheReference) {
  using T = TypeParam;
  for (const LayerNormShape& shape : kShapes) {
    const auto x = Values<T>(shape.rows * shape.channels, 1);
    const auto w = testing::RandomOf<T>(shape.channels, 2),
               b = testing::RandomOf<T>(shape.channels, 3);
    const auto expected =
        reference::LayerNormForward(shape.rows, shape.channels, kEpsilon, testing::WidenOf(x),
                                    testing::WidenOf(w), testing::WidenOf(b));
    this->InEachOrder([&] {
      cudaStream_t stream = this->stream();
      DeviceArray<T> values(x, stream), again(x, stream), weights(w, stream), bias(b, stream);
      DeviceArray<float> statistics(2 * shape.rows, stream);
      STRATA_EXPECT_OK(LayerNormForward(stream, shape, kEpsilon, values.data(), weights.data(),
                                        bias.data(), values.data(), statistics.data()));
      STRATA_EXPECT_OK(LayerNormReplay(stream, shape, again.data(), weights.data(), bias.data(),
                                       statistics.data(), again.data()));
      ExpectNumbers(values.ToHost(), expected.y);
      ExpectNumbers(statistics.ToHost(), expected.statistics);
      EXPECT_EQ(testing::Back(again.ToHost()), testing::Back(values.ToHost()));
    });
  }
}

TYPED_TEST(LayerNormTest, AddAndNormIsTheNormOfTheRoundedSum) {
  using T = TypeParam;
  for (const LayerNormShape& shape : kShapes) {
    const auto x = Values<T>(shape.rows * shape.channels, 1);
    const auto branch = testing::RandomOf<T>(x.size(), 2);
    const auto w = testing::RandomOf<T>(shape.channels, 3),
               b = testing::RandomOf<T>(shape.channels, 4);
    Floats sums = testing::Back(x);
    for (size_t i = 0; i < x.size(); ++i) sums[i] += ToFloat(branch[i]);
    const Doubles sum = testing::WidenOf(testing::As<T>(sums));
    const auto expected = reference::LayerNormForward(shape.rows, shape.channels, kEpsilon, sum,
                                                      testing::WidenOf(w), testing::WidenOf(b));
    this->InEachOrder([&] {
      cudaStream_t stream = this->stream();
      DeviceArray<T> dx(x, stream), added(branch, stream), weights(w, stream), bias(b, stream),
          y(x.size(), stream);
      DeviceArray<float> statistics(2 * shape.rows, stream);
      STRATA_EXPECT_OK(AddLayerNormForward(stream, shape, kEpsilon, dx.data(), added.data(),
                                           weights.data(), bias.data(), added.data(), y.data(),
                                           statistics.data()));
      EXPECT_EQ(testing::WidenOf(added.ToHost()), sum);
      ExpectNumbers(y.ToHost(), expected.y);
      ExpectNumbers(statistics.ToHost(), expected.statistics);
    });
  }
}

TYPED_TEST(LayerNormTest, BackwardEqualsTheReferenceAndAddsToTheWeightsGradients) {
  using T = TypeParam;
  std::vector<LayerNormShape> shapes(std::begin(kShapes), std::end(kShapes));
  shapes.insert(shapes.end(), std::begin(kManyRows), std::end(kManyRows));
  for (const LayerNormShape& shape : shapes) {
    const auto x = testing::RandomOf<T>(shape.rows * shape.channels, 1, 3);
    const auto dy = testing::RandomOf<T>(x.size(), 2), w = testing::RandomOf<T>(shape.channels, 3);
    const auto before = testing::RandomOf<T>(x.size(), 4);
    const Floats statistics = testing::Random(2 * shape.rows, 5),
                 dw_before = testing::Random(w.size(), 6), db_before = testing::Random(w.size(), 7);
    auto expected = reference::LayerNormBackward(shape.rows, shape.channels, testing::WidenOf(dy),
                                                 testing::WidenOf(x), testing::WidenOf(w),
                                                 testing::Widen(statistics));
    Doubles accumulated = expected.dx;
    for (size_t i = 0; i < x.size(); ++i) accumulated[i] += ToFloat(before[i]);
    for (size_t i = 0; i < w.size(); ++i) {
      expected.dw[i] += dw_before[i];
      expected.db[i] += db_before[i];
    }
    this->InEachOrder([&] {
      cudaStream_t stream = this->stream();
      DeviceArray<T> gradient(dy, stream), values(x, stream), weights(w, stream),
          added(before, stream);
      DeviceArray<float> of(statistics, stream), dw(dw_before, stream), db(db_before, stream),
          workspace(LayerNormBackwardWorkspaceBytes(shape) / sizeof(float), stream);
      STRATA_EXPECT_OK(LayerNormBackward<T>(stream, shape, gradient.data(), values.data(),
                                            weights.data(), of.data(), true, added.data(), nullptr,
                                            nullptr, nullptr));
      STRATA_EXPECT_OK(LayerNormBackward(stream, shape, gradient.data(), values.data(),
                                         weights.data(), of.data(), false, gradient.data(),
                                         dw.data(), db.data(), workspace.data()));
      ExpectNumbers(added.ToHost(), accumulated);
      ExpectNumbers(gradient.ToHost(), expected.dx);
      ExpectNumbers(dw.ToHost(), expected.dw);
      ExpectNumbers(db.ToHost(), expected.db);
    });
  }
}

TYPED_TEST(LayerNormTest, MoreChannelsThanSharedMemoryHoldsAreRefusedOnlyWithAWeightsGradient) {
  using T = TypeParam;
  const LayerNormShape shape{1, kMostLayerNormChannels + 8};
  this->InEachOrder([&] {
    float place = 0;
    T* none = nullptr;
    EXPECT_EQ(LayerNormBackward(this->stream(), shape, none, none, none, &place, false, none,
                                &place, &place, &place)
                  .message(),
              "gradients of a layer norm's weights of 28680 channels: at most 28672");
    STRATA_EXPECT_OK(LayerNormBackward(this->stream(), {0, shape.channels}, none, none, none,
                                       &place, false, none, &place, &place, &place));
    EXPECT_EQ(LayerNormReplay(this->stream(), {3, 0}, none, none, none, &place, none).message(),
              "layer norm of 3 rows of 0 channels");
  });
}

}  // namespace
}  // namespace strata::kernels::cuda
