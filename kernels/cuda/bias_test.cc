#include "kernels/cuda/bias.h"

#include "kernels/cuda/testing.h"

namespace strata::kernels::cuda {
namespace {

// By packets and by elements; narrow rows of which a block takes several, and ones wider than a
// block.
constexpr struct {
  int64_t rows, width;
} kShapes[] = {{1, 1}, {700, 3}, {5, 24}, {70, 2056}, {3, 513}};

template <typename T>
class BiasTest : public TypedCudaTest<T> {};
TYPED_TEST_SUITE(BiasTest, NumberTypes);

TYPED_TEST(BiasTest, IsAddedToEveryRow) {
  using T = TypeParam;
  for (const auto [rows, width] : kShapes) {
    const auto y = testing::RandomOf<T>(rows * width, 1), b = testing::RandomOf<T>(width, 2);
    Doubles expected = testing::WidenOf(y);
    for (size_t i = 0; i < y.size(); ++i) expected[i] += ToFloat(b[i % width]);
    this->InEachOrder([&, rows = rows, width = width] {
      DeviceArray<T> values(y, this->stream()), bias(b, this->stream());
      STRATA_EXPECT_OK(AddBias<T>(this->stream(), rows, width, bias.data(), values.data()));
      ExpectNumbers(values.ToHost(), expected);
    });
  }
}

TYPED_TEST(BiasTest, GradientIsTheSumOverRows) {
  using T = TypeParam;
  for (const auto [rows, width] : kShapes) {
    const auto dy = testing::RandomOf<T>(rows * width, 1);
    const Floats before = testing::Random(width, 2);
    Doubles expected = testing::Widen(before);
    for (size_t i = 0; i < dy.size(); ++i) expected[i % width] += ToFloat(dy[i]);
    this->InEachOrder([&, rows = rows, width = width] {
      DeviceArray<T> gradient(dy, this->stream());
      DeviceArray<float> db(before, this->stream()),
          workspace(BiasGradientWorkspaceBytes(rows, width) / sizeof(float), this->stream());
      STRATA_EXPECT_OK(BiasGradient<T>(this->stream(), rows, width, gradient.data(), db.data(),
                                       workspace.data()));
      ExpectNumbers(db.ToHost(), expected);
    });
  }
}

TYPED_TEST(BiasTest, OfNoRowsIsNothingAndOfNoWidthIsRefused) {
  using T = TypeParam;
  this->InEachOrder([&] {
    STRATA_EXPECT_OK(AddBias<T>(this->stream(), 0, 4, nullptr, nullptr));
    STRATA_EXPECT_OK(BiasGradient<T>(this->stream(), 0, 4, nullptr, nullptr, nullptr));
    EXPECT_EQ(AddBias<T>(this->stream(), 3, 0, nullptr, nullptr).message(), "bias of 0 in 3 rows");
  });
}

}  // namespace
}  // namespace strata::kernels::cuda
