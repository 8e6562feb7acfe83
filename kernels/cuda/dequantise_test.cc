#include "kernels/cuda/dequantise.h"

#include "kernels/cuda/testing.h"
#include "kernels/int8.h"
#include "kernels/nf4.h"
#include "kernels/reference/int8.h"

namespace strata::kernels::cuda {
namespace {

template <typename T>
class DequantiseTest : public TypedCudaTest<T> {
 protected:
  void ExpectBits(DeviceArray<T>& actual, const std::vector<T>& expected) {
    EXPECT_TRUE(testing::SameBits(testing::Back(actual.ToHost()), testing::Back(expected)));
  }
};
using AllNumberTypes = ::testing::Types<float, BFloat16, Float16>;
TYPED_TEST_SUITE(DequantiseTest, AllNumberTypes);

std::vector<std::byte> UnitsOf(const Floats& weights, bool f32_scales) {
  const auto count = static_cast<int64_t>(weights.size());
  const int64_t bytes = f32_scales ? kNf4F32UnitBytes : kNf4UnitBytes;
  std::vector<std::byte> units((count + kNf4Unit - 1) / kNf4Unit * bytes);
  const auto offset = static_cast<float>(SumOfNf4Scales(weights.data(), count) /
                                         static_cast<double>((count + 63) / 64));
  for (int64_t u = 0; u * kNf4Unit < count; ++u) {
    const float* const from = weights.data() + u * kNf4Unit;
    const int64_t there = std::min(kNf4Unit, count - u * kNf4Unit);
    if (f32_scales) {
      QuantiseNf4F32Unit(from, there, units.data() + u * bytes);
    } else {
      QuantiseNf4Unit(from, there, offset, units.data() + u * bytes);
    }
  }
  return units;
}

TYPED_TEST(DequantiseTest, Nf4HasTheCpusBits) {
  // Less than a thread's; ends in a block and between two; more than a unit.
  for (const int64_t count : {1, 20, 64, 1000, 17'003}) {
    for (const bool f32_scales : {false, true}) {
      for (const int64_t skip : {0, 1}) {
        const auto units = UnitsOf(testing::Random(count, 1, 0.02F), f32_scales);
        std::vector<TypeParam> expected(count + skip, FromFloat<TypeParam>(7));
        const std::vector<TypeParam> before = expected;
        device::ThreadPool pool(1);
        const auto on_the_cpu =
            f32_scales ? kernels::DequantiseNf4F32<TypeParam> : kernels::DequantiseNf4<TypeParam>;
        on_the_cpu({&pool}, units.data(), count, expected.data() + skip);
        this->InEachOrder([&] {
          DeviceArray<std::byte> from(units, this->stream());
          DeviceArray<TypeParam> to(before, this->stream());
          STRATA_EXPECT_OK(cuda::DequantiseNf4(this->stream(), from.data(), f32_scales, count,
                                               to.data() + skip));
          this->ExpectBits(to, expected);
        });
      }
    }
  }
}

TYPED_TEST(DequantiseTest, Int8HasTheCpusBitsAndEqualsTheReference) {
  for (const auto& [rows, columns] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 8}, {5, 77}, {2, 2056}}) {
    std::vector<int8_t> codes(rows * columns);
    for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<int8_t>(i * 37 % 255 - 127);
    const Floats scales = testing::Random(rows, 1, 0.01F);
    std::vector<TypeParam> expected(rows * columns);
    device::ThreadPool pool(1);
    kernels::DequantiseInt8({&pool}, codes.data(), scales.data(), rows, columns, expected.data());
    ExpectNumbers(expected, reference::DequantiseInt8({.codes = {codes.begin(), codes.end()},
                                                       .scales = testing::Widen(scales)}));
    this->InEachOrder([&] {
      DeviceArray<int8_t> from(codes, this->stream());
      DeviceArray<float> by(scales, this->stream());
      DeviceArray<TypeParam> to(expected.size(), this->stream());
      STRATA_EXPECT_OK(
          cuda::DequantiseInt8(this->stream(), from.data(), by.data(), rows, columns, to.data()));
      this->ExpectBits(to, expected);
    });
  }
}

TYPED_TEST(DequantiseTest, RowsOfATensorAreDequantisedByThemselves) {
  constexpr int64_t kRows = 6, kColumns = 40, kFirst = 2, kCount = 3;
  const Floats weights = testing::Random(kRows * kColumns, 1), scales = testing::Random(kRows, 2);
  std::vector<int8_t> codes(kRows * kColumns);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<int8_t>(i);
  std::vector<TypeParam> expected(kCount * kColumns);
  device::ThreadPool pool(1);
  kernels::DequantiseInt8({&pool}, codes.data() + kFirst * kColumns, scales.data() + kFirst, kCount,
                          kColumns, expected.data());
  this->InEachOrder([&] {
    DeviceArray<int8_t> from(codes, this->stream());
    DeviceArray<float> by(scales, this->stream());
    DeviceArray<TypeParam> to(expected.size(), this->stream());
    STRATA_EXPECT_OK(cuda::DequantiseInt8(this->stream(), from.data() + kFirst * kColumns,
                                          by.data() + kFirst, kCount, kColumns, to.data()));
    this->ExpectBits(to, expected);
  });
}

TEST(Dequantise, RefusesUnitsThatCannotBeReadByWords) {
  std::byte unit{};
  const auto status = cuda::DequantiseNf4<float>(
      nullptr, reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(&unit) / 4 * 4 + 1), false,
      20, nullptr);
  EXPECT_NE(status.ToString().find("multiple of 4"), std::string::npos);
}

}  // namespace
}  // namespace strata::kernels::cuda
