#include "kernels/cuda/convert.h"

#include <limits>

#include "kernels/convert.h"
#include "kernels/cuda/testing.h"

namespace strata::kernels::cuda {
namespace {

// Numbers of every magnitude, and what rounding must not spoil: ties, what is too large or small
// for f16, zeros, infinities; no NaN.
Floats Numbers(int64_t count) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Floats edges = {0,        -0.F,     1.00390625F, 1.01171875F, 65519.F,
                        65520.F,  -70000.F, 0x1p-24F,    0x1p-25F,    0x1.8p-24F,
                        0x1p-15F, 3e38F,    kInfinity,   -kInfinity};
  Floats values = testing::Random(count, 1);
  for (int64_t i = 0; i < count; ++i) {
    values[i] *= std::pow(10.F, static_cast<float>(i % 16 - 10));
    if (i % 3 == 0 && i / 3 < static_cast<int64_t>(edges.size())) values[i] = edges[i / 3];
  }
  return values;
}

template <typename T>
class ConvertTest : public TypedCudaTest<T> {
 protected:
  template <typename From, typename To>
  void HasTheCpusBits(int64_t skip) {
    // Less than a packet; packets with and without a rest; several blocks.
    for (const int64_t count : {1, 8, 2051, 4096}) {
      const std::vector<From> src = testing::As<From>(Numbers(count + skip));
      const std::vector<To> before(count + skip, FromFloat<To>(7));
      std::vector<To> expected = before;
      device::ThreadPool pool(1);
      kernels::Convert<From, To>({&pool}, count, src.data() + skip, expected.data() + skip);
      this->InEachOrder([&] {
        DeviceArray<From> from(src, this->stream());
        DeviceArray<To> to(before, this->stream());
        STRATA_EXPECT_OK(
            cuda::Convert(this->stream(), count, from.data() + skip, to.data() + skip));
        EXPECT_TRUE(testing::SameBits(testing::Back(to.ToHost()), testing::Back(expected)));
      });
    }
  }
};
using SmallTypes = ::testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(ConvertTest, SmallTypes);

TYPED_TEST(ConvertTest, FromF32HasTheCpusBits) {
  this->template HasTheCpusBits<float, TypeParam>(0);
  this->template HasTheCpusBits<float, TypeParam>(1);
}

TYPED_TEST(ConvertTest, ToF32HasTheCpusBits) {
  this->template HasTheCpusBits<TypeParam, float>(0);
  this->template HasTheCpusBits<TypeParam, float>(1);
}

TYPED_TEST(ConvertTest, NanStaysNan) {
  const Floats nan(9, std::numeric_limits<float>::quiet_NaN());
  this->InEachOrder([&] {
    DeviceArray<float> from(nan, this->stream()), back(9, this->stream());
    DeviceArray<TypeParam> to(9, this->stream());
    STRATA_EXPECT_OK(cuda::Convert(this->stream(), 9, from.data(), to.data()));
    STRATA_EXPECT_OK(cuda::Convert(this->stream(), 9, to.data(), back.data()));
    for (const float value : testing::Back(to.ToHost())) EXPECT_TRUE(std::isnan(value));
    for (const float value : back.ToHost()) EXPECT_TRUE(std::isnan(value));
  });
}

TYPED_TEST(ConvertTest, OfNothingIsNothing) {
  this->InEachOrder([&] {
    STRATA_EXPECT_OK((cuda::Convert<float, TypeParam>(this->stream(), 0, nullptr, nullptr)));
  });
}

}  // namespace
}  // namespace strata::kernels::cuda
