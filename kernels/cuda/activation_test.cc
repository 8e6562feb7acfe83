#include "kernels/cuda/activation.h"

#include <type_traits>

#include "kernels/cuda/testing.h"
#include "kernels/reference/activation.h"

namespace strata::kernels::cuda {
namespace {

// With the reference's name of each.
constexpr struct {
  Function function;
  kernels::Function reference;
} kFunctions[] = {{Function::kSilu, kernels::Function::kSilu},
                  {Function::kGeluTanh, kernels::Function::kGeluTanh},
                  {Function::kGelu, kernels::Function::kGelu}};

// Of one function more than a block takes.
int64_t Elements(Function function) { return function == Function::kSilu ? 2067 : 19; }

template <typename T>
class ActivationTest : public TypedCudaTest<T> {};
TYPED_TEST_SUITE(ActivationTest, NumberTypes);

// Within a packet, whole packets, with elements left.
TYPED_TEST(ActivationTest, ForwardAndBackwardInPlaceEqualTheReference) {
  using T = TypeParam;
  for (const auto [function, of_reference] : kFunctions) {
    for (const int64_t count : {int64_t{1}, int64_t{8}, Elements(function)}) {
      const auto x = testing::RandomOf<T>(count, 1, 3), dh = testing::RandomOf<T>(count, 2);
      Doubles h, dx;
      for (int64_t i = 0; i < count; ++i) {
        h.push_back(reference::Activation(of_reference, ToFloat(x[i])));
        dx.push_back(ToFloat(dh[i]) * reference::ActivationSlope(of_reference, ToFloat(x[i])));
      }
      this->InEachOrder([&, function = function] {
        cudaStream_t stream = this->stream();
        DeviceArray<T> in(x, stream), out(count, stream), over_dh(dh, stream), over_x(x, stream),
            gradient(dh, stream);
        STRATA_EXPECT_OK(ActivationForward<T>(stream, count, function, in.data(), out.data()));
        STRATA_EXPECT_OK(ActivationBackward<T>(stream, count, function, gradient.data(),
                                               over_x.data(), over_x.data()));
        STRATA_EXPECT_OK(ActivationBackward<T>(stream, count, function, over_dh.data(), in.data(),
                                               over_dh.data()));
        STRATA_EXPECT_OK(ActivationForward<T>(stream, count, function, in.data(), in.data()));
        ExpectNumbers(out.ToHost(), h);
        ExpectNumbers(in.ToHost(), h);
        ExpectNumbers(over_dh.ToHost(), dx);
        ExpectNumbers(over_x.ToHost(), dx);
      });
    }
  }
}

TYPED_TEST(ActivationTest, FarFromZeroAreTheLimitsAndNotANumberShows) {
  using T = TypeParam;
  const float far = std::is_same_v<T, Float16> ? 6e4F : 1e6F;  // as far as it goes
  const auto x = testing::As<T>({far, -far, 90, -90, 16, -16, NAN, 0});
  for (const auto [function, of_reference] : kFunctions) {
    this->InEachOrder([&, function = function] {
      DeviceArray<T> in(x, this->stream()), h(8, this->stream()),
          dh(testing::As<T>(Floats(8, 1.F)), this->stream());
      STRATA_EXPECT_OK(ActivationForward<T>(this->stream(), 8, function, in.data(), h.data()));
      STRATA_EXPECT_OK(
          ActivationBackward<T>(this->stream(), 8, function, dh.data(), in.data(), dh.data()));
      const Floats value = testing::Back(h.ToHost()), slope = testing::Back(dh.ToHost());
      EXPECT_TRUE(std::isnan(value[6]) && std::isnan(slope[6]));
      for (const int i : {0, 2, 4}) {  // and the negative ones beside them
        const float large = ToFloat(x[i]);
        EXPECT_NEAR(value[i], large, 1e-5 * large);
        EXPECT_NEAR(value[i + 1], 0, 1e-5);
        EXPECT_NEAR(slope[i], 1, 1e-5);
        EXPECT_NEAR(slope[i + 1], 0, 1e-5);
      }
      EXPECT_EQ(value[7], 0);
      EXPECT_EQ(slope[7], 0.5);
    });
  }
}

// By packets and by elements; less and more than a block has threads, several rows in one.
constexpr struct { int64_t rows, ffn; } kGates[] = {{1, 1}, {70, 7}, {5, 24}, {1, 2056}, {2, 257}};

TYPED_TEST(ActivationTest, GateEqualsTheReferenceAndKeepsItsInput) {
  using T = TypeParam;
  for (const auto [function, of_reference] : kFunctions) {
    for (const auto [rows, ffn] : kGates) {
      const auto gate_up = testing::RandomOf<T>(rows * 2 * ffn, 1, 3);
      const auto expected =
          reference::GatedForward(rows, ffn, of_reference, testing::WidenOf(gate_up));
      this->InEachOrder([&, rows = rows, ffn = ffn, function = function] {
        DeviceArray<T> in(gate_up, this->stream()), h(rows * ffn, this->stream());
        STRATA_EXPECT_OK(GatedForward(this->stream(), rows, ffn, function, in.data(), h.data()));
        ExpectNumbers(h.ToHost(), expected);
        EXPECT_EQ(testing::Back(in.ToHost()), testing::Back(gate_up));
      });
    }
  }
}

TYPED_TEST(ActivationTest, GatesGradientInPlaceEqualsTheReference) {
  using T = TypeParam;
  for (const auto [function, of_reference] : kFunctions) {
    for (const auto [rows, ffn] : kGates) {
      const auto gate_up = testing::RandomOf<T>(rows * 2 * ffn, 1, 3);
      const auto dh = testing::RandomOf<T>(rows * ffn, 2);
      const auto expected = reference::GatedBackward(rows, ffn, of_reference, testing::WidenOf(dh),
                                                     testing::WidenOf(gate_up));
      this->InEachOrder([&, rows = rows, ffn = ffn, function = function] {
        DeviceArray<T> values(gate_up, this->stream()), gradient(dh, this->stream());
        STRATA_EXPECT_OK(GatedBackward(this->stream(), rows, ffn, function, gradient.data(),
                                       values.data(), values.data()));
        ExpectNumbers(values.ToHost(), expected);
      });
    }
  }
}

TYPED_TEST(ActivationTest, OfNothingIsNoWorkAndOfLessIsRefused) {
  using T = TypeParam;
  this->InEachOrder([&] {
    T* none = nullptr;
    STRATA_EXPECT_OK(ActivationForward<T>(this->stream(), 0, Function::kGelu, none, none));
    STRATA_EXPECT_OK(ActivationBackward<T>(this->stream(), 0, Function::kGelu, none, none, none));
    STRATA_EXPECT_OK(GatedForward<T>(this->stream(), 0, 8, Function::kGelu, none, none));
    EXPECT_EQ(ActivationForward<T>(this->stream(), -1, Function::kGelu, none, none).message(),
              "activation of -1 elements");
    EXPECT_EQ(GatedForward<T>(this->stream(), 3, 0, Function::kGelu, none, none).message(),
              "gate of 3 rows of 0");
  });
}

}  // namespace
}  // namespace strata::kernels::cuda
