#include "kernels/cuda/cross_entropy.h"

#include "kernels/cuda/testing.h"
#include "kernels/reference/cross_entropy.h"

namespace strata::kernels::cuda {
namespace {

constexpr float kScale = 0.125f;

// By packets and by elements; less and more than a block has threads.
constexpr LossShape kShapes[] = {{1, 2}, {3, 7}, {4, 24}, {3, 1031}, {2, 5008}, {3, 56, 20}};

// The last row's is the last column, the second row is ignored.
std::vector<int32_t> Targets(const LossShape& shape) {
  std::vector<int32_t> targets(shape.rows, 0);
  targets.back() = static_cast<int32_t>(shape.vocab - 1);
  if (shape.rows > 1) targets[1] = shape.rows > 2 ? -1 : targets[1];
  return targets;
}

template <typename T>
Doubles Losses(const LossShape& shape, const std::vector<int32_t>& targets,
               const std::vector<T>& logits) {
  const Doubles values = testing::WidenOf(logits);
  Doubles losses;
  for (int64_t row = 0; row < shape.rows; ++row) {
    const Doubles one(values.begin() + row * shape.vocab, values.begin() + (row + 1) * shape.vocab);
    losses.push_back(reference::CrossEntropyLoss(shape.vocab, {targets[row]}, one, shape.softcap));
  }
  return losses;
}

template <typename T>
class CrossEntropyTest : public TypedCudaTest<T> {};
TYPED_TEST_SUITE(CrossEntropyTest, NumberTypes);

TYPED_TEST(CrossEntropyTest, LossesAndGradientInPlaceEqualTheReference) {
  using T = TypeParam;
  for (const LossShape& shape : kShapes) {
    const auto targets = Targets(shape);
    const auto logits = testing::RandomOf<T>(shape.rows * shape.vocab, 1, 4);
    const auto losses = Losses(shape, targets, logits);
    const auto gradient = reference::CrossEntropyGradient(shape.vocab, kScale, targets,
                                                          testing::WidenOf(logits), shape.softcap);
    this->InEachOrder([&] {
      DeviceArray<T> values(logits, this->stream());
      DeviceArray<int32_t> wanted(targets, this->stream());
      DeviceArray<float> forward(shape.rows, this->stream()), both(shape.rows, this->stream());
      STRATA_EXPECT_OK(CrossEntropyForward<T>(this->stream(), shape, wanted.data(), values.data(),
                                              forward.data()));
      ExpectNumbers(forward.ToHost(), losses);
      EXPECT_EQ(testing::Back(values.ToHost()), testing::Back(logits));
      STRATA_EXPECT_OK(CrossEntropyForwardBackward(this->stream(), shape, kScale, wanted.data(),
                                                   values.data(), both.data()));
      EXPECT_EQ(both.ToHost(), forward.ToHost());
      ExpectNumbers(values.ToHost(), gradient);
    });
  }
}

TYPED_TEST(CrossEntropyTest, ARowOfOneLogitHasNeitherLossNorGradient) {
  this->InEachOrder([&] {
    DeviceArray<TypeParam> logit(testing::As<TypeParam>({3}), this->stream());
    DeviceArray<int32_t> wanted(std::vector<int32_t>{0}, this->stream());
    DeviceArray<float> losses(1, this->stream());
    STRATA_EXPECT_OK(CrossEntropyForwardBackward(this->stream(), {1, 1}, 1.f, wanted.data(),
                                                 logit.data(), losses.data()));
    EXPECT_EQ(losses.ToHost(), Floats{0});
    EXPECT_EQ(testing::Back(logit.ToHost()), Floats{0});
  });
}

TYPED_TEST(CrossEntropyTest, LargeLogitsAndMinusInfinityDoNotOverflow) {
  using T = TypeParam;
  const LossShape shape{1, 600};
  Floats logits(shape.vocab, -INFINITY);
  logits[0] = 32768;
  logits[599] = 32512;  // both are bf16
  const auto expected = testing::As<T>(logits);
  this->InEachOrder([&] {
    DeviceArray<T> values(expected, this->stream());
    DeviceArray<int32_t> wanted(std::vector<int32_t>{599}, this->stream());
    DeviceArray<float> losses(1, this->stream());
    STRATA_EXPECT_OK(CrossEntropyForwardBackward(this->stream(), shape, 1.f, wanted.data(),
                                                 values.data(), losses.data()));
    const float distance = ToFloat(expected[0]) - ToFloat(expected[599]);
    EXPECT_FLOAT_EQ(losses.ToHost()[0], distance);
    Doubles gradient(shape.vocab, 0);
    gradient[0] = 1;
    gradient[599] = -1;
    ExpectNumbers(values.ToHost(), gradient);
  });
}

// On any thread, beside others or alone.
TYPED_TEST(CrossEntropyTest, ALogitThatIsNotANumberMakesTheRowsLossSo) {
  for (const int64_t at : {0, 3, 599}) {
    Floats logits(600, at == 3 ? -INFINITY : 1.F);
    logits[100] = 2;
    logits[at] = NAN;
    this->InEachOrder([&] {
      DeviceArray<TypeParam> values(testing::As<TypeParam>(logits), this->stream());
      DeviceArray<int32_t> wanted(std::vector<int32_t>{100}, this->stream());
      DeviceArray<float> losses(1, this->stream());
      STRATA_EXPECT_OK(CrossEntropyForwardBackward(this->stream(), {1, 600}, 1.f, wanted.data(),
                                                   values.data(), losses.data()));
      EXPECT_TRUE(std::isnan(losses.ToHost()[0]));
      EXPECT_TRUE(std::isnan(ToFloat(values.ToHost()[at])));
    });
  }
}

}  // namespace
}  // namespace strata::kernels::cuda
