#include "kernels/cuda/activation.h"

#include "kernels/cuda/testing.h"
#include "kernels/reference/activation.h"

namespace strata::kernels::cuda {
namespace {

// By packets and by elements; less and more than a block has threads.
constexpr struct { int64_t rows, ffn; } kShapes[] = {{1, 1}, {3, 7}, {5, 24}, {2, 2056}, {3, 513}};

template <typename T>
class SwigluTest : public TypedCudaTest<T> {};
TYPED_TEST_SUITE(SwigluTest, NumberTypes);

TYPED_TEST(SwigluTest, ForwardEqualsTheReferenceAndKeepsItsInput) {
  using T = TypeParam;
  for (const auto [rows, ffn] : kShapes) {
    const auto gate_up = testing::RandomOf<T>(rows * 2 * ffn, 1, 3);
    const auto expected =
        reference::GatedForward(rows, ffn, Function::kSilu, testing::WidenOf(gate_up));
    this->InEachOrder([&, rows = rows, ffn = ffn] {
      DeviceArray<T> in(gate_up, this->stream()), h(rows * ffn, this->stream());
      STRATA_EXPECT_OK(SwigluForward(this->stream(), rows, ffn, in.data(), h.data()));
      ExpectNumbers(h.ToHost(), expected);
      EXPECT_EQ(testing::Back(in.ToHost()), testing::Back(gate_up));
    });
  }
}

TYPED_TEST(SwigluTest, BackwardInPlaceEqualsTheReference) {
  using T = TypeParam;
  for (const auto [rows, ffn] : kShapes) {
    const auto gate_up = testing::RandomOf<T>(rows * 2 * ffn, 1, 3);
    const auto dh = testing::RandomOf<T>(rows * ffn, 2);
    const auto expected = reference::GatedBackward(rows, ffn, Function::kSilu, testing::WidenOf(dh),
                                                   testing::WidenOf(gate_up));
    this->InEachOrder([&, rows = rows, ffn = ffn] {
      DeviceArray<T> values(gate_up, this->stream()), gradient(dh, this->stream());
      STRATA_EXPECT_OK(
          SwigluBackward(this->stream(), rows, ffn, gradient.data(), values.data(), values.data()));
      ExpectNumbers(values.ToHost(), expected);
    });
  }
}

TYPED_TEST(SwigluTest, ValuesFarFromZeroAreFinite) {
  using T = TypeParam;
  const auto gate_up = testing::As<T>({-1000, 1000, -90, 90, 1, 1, 1, 1});
  const auto expected = reference::GatedForward(1, 4, Function::kSilu, testing::WidenOf(gate_up));
  this->InEachOrder([&] {
    DeviceArray<T> in(gate_up, this->stream()), h(4, this->stream());
    STRATA_EXPECT_OK(SwigluForward(this->stream(), 1, 4, in.data(), h.data()));
    ExpectNumbers(h.ToHost(), expected);
  });
}

}  // namespace
}  // namespace strata::kernels::cuda
