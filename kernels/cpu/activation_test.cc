#include "kernels/activation.h"

#include <limits>

#include "kernels/cpu/functions.h"
#include "kernels/cpu/test_util.h"
#include "kernels/reference/activation.h"

namespace strata::kernels {
namespace {

namespace simd = STRATA_ISA::simd;

using testing::Doubles;
using testing::Floats;

constexpr struct {
  int64_t rows, ffn;
} kGateShapes[] = {{1, 1}, {3, 13}, {2, 16}, {40, 101}, {2, 5461}};
constexpr Function kAllFunctions[] = {Function::kSilu, Function::kGeluTanh, Function::kGelu};

template <typename T>
void ExpectActivations() {
  for (const Function function : kAllFunctions) {
    for (const int64_t count : {1, 7, 8, 50001}) {
      const std::vector<T> x = testing::RandomOf<T>(count, 1, 3);
      const std::vector<T> dh = testing::RandomOf<T>(count, 2);
      const Floats result = testing::RunWithThreads([&](const Context& c) {
        std::vector<T> h(x.size()), dx(x.size()), h_in_place = x, dx_in_place = x, over_dh = dh;
        ActivationForward(c, count, function, x.data(), h.data());
        ActivationForward(c, count, function, h_in_place.data(), h_in_place.data());
        ActivationBackward(c, count, function, dh.data(), x.data(), dx.data());
        ActivationBackward(c, count, function, dh.data(), dx_in_place.data(), dx_in_place.data());
        ActivationBackward(c, count, function, over_dh.data(), x.data(), over_dh.data());
        EXPECT_TRUE(testing::SameBits(testing::Back(h), testing::Back(h_in_place)));
        EXPECT_TRUE(testing::SameBits(testing::Back(dx), testing::Back(dx_in_place)));
        EXPECT_TRUE(testing::SameBits(testing::Back(dx), testing::Back(over_dh)));
        return testing::Concat({testing::Back(h), testing::Back(dx)});
      });
      Doubles h, dx;
      for (int64_t i = 0; i < count; ++i) {
        h.push_back(reference::Activation(function, ToFloat(x[i])));
        dx.push_back(ToFloat(dh[i]) * reference::ActivationSlope(function, ToFloat(x[i])));
      }
      testing::ExpectRounded<T>(result, testing::Concat({h, dx}), 6e-7);
    }
  }
}

TEST(Activation, MatchesTheReferenceAlsoInPlace) {
  ExpectActivations<float>();
  ExpectActivations<BFloat16>();
  ExpectActivations<Float16>();
}

TEST(Activation, ReferenceSlopesMatchFiniteDifferences) {
  for (const Function function : kAllFunctions) {
    for (double x = -6; x < 6; x += 0.37) {
      const double slope =
          (reference::Activation(function, x + 1e-5) - reference::Activation(function, x - 1e-5)) /
          2e-5;
      EXPECT_NEAR(reference::ActivationSlope(function, x), slope, 1e-9);
    }
  }
}

template <typename T>
void ExpectGates() {
  for (const Function function : kAllFunctions) {
    for (const auto [rows, ffn] : kGateShapes) {
      const std::vector<T> gate_up = testing::RandomOf<T>(rows * 2 * ffn, 1, 3);
      const std::vector<T> dh = testing::RandomOf<T>(rows * ffn, 2);
      const Floats result = testing::RunWithThreads([&, rows = rows, ffn = ffn](const Context& c) {
        std::vector<T> h(dh.size()), dgate_up(gate_up.size()), in_place = gate_up;
        GatedForward(c, rows, ffn, function, gate_up.data(), h.data());
        GatedBackward(c, rows, ffn, function, dh.data(), gate_up.data(), dgate_up.data());
        GatedBackward(c, rows, ffn, function, dh.data(), in_place.data(), in_place.data());
        EXPECT_TRUE(testing::SameBits(testing::Back(dgate_up), testing::Back(in_place)));
        return testing::Concat({testing::Back(h), testing::Back(dgate_up)});
      });
      const Doubles wide = testing::WidenOf(gate_up);
      testing::ExpectRounded<T>(
          result,
          testing::Concat(
              {reference::GatedForward(rows, ffn, function, wide),
               reference::GatedBackward(rows, ffn, function, testing::WidenOf(dh), wide)}),
          4e-7);
    }
  }
}

TEST(Gate, MatchesTheReferenceAlsoInPlace) {
  ExpectGates<float>();
  ExpectGates<BFloat16>();
  ExpectGates<Float16>();
}

TEST(Gate, ReferenceBackwardMatchesFiniteDifferences) {
  const int64_t rows = 3, ffn = 13;
  const Doubles gate_up = testing::Widen(testing::Random(rows * 2 * ffn, 1, 2));
  const Doubles dh = testing::Widen(testing::Random(rows * ffn, 2));
  for (const Function function : kAllFunctions) {
    const Doubles expected = testing::FiniteDifferences(gate_up, [&](const Doubles& x) {
      return testing::Dot(dh, reference::GatedForward(rows, ffn, function, x));
    });
    testing::ExpectClose(reference::GatedBackward(rows, ffn, function, dh, gate_up), expected,
                         1e-7);
  }
}

TEST(Gate, ExtremeGatesGiveTheirLimits) {
  const Floats gate_up = {200, -200, 90, -90, 1, 1, 1, 1};
  device::ThreadPool pool(1);
  for (const Function function : kAllFunctions) {
    Floats h(4), dgate_up(8);
    GatedForward({&pool}, 1, 4, function, gate_up.data(), h.data());
    EXPECT_EQ(h, (Floats{200, 0, 90, 0}));
    const Floats dh(4, 1.0f);
    GatedBackward({&pool}, 1, 4, function, dh.data(), gate_up.data(), dgate_up.data());
    EXPECT_EQ(dgate_up, (Floats{1, 0, 1, 0, 200, 0, 90, 0}));
  }
}

TEST(Activation, HugeAndNotANumberShow) {
  device::ThreadPool pool(1);
  for (const Function function : kAllFunctions) {
    const Floats x = {1e6f, -1e6f, std::nanf("")}, dh = {1, 1, 1};
    Floats h(3), dx(3);
    ActivationForward({&pool}, 3, function, x.data(), h.data());
    ActivationBackward({&pool}, 3, function, dh.data(), x.data(), dx.data());
    EXPECT_EQ(h[0], 1e6f);
    EXPECT_EQ(h[1], 0);
    EXPECT_EQ(dx[0], 1);
    EXPECT_EQ(dx[1], 0);
    EXPECT_TRUE(std::isnan(h[2]) && std::isnan(dx[2]));
  }
}

// The largest relative error of eight equal lanes over a range.
double WorstError(double from, double to, double step, const std::function<double(double)>& exact,
                  simd::Vec (*function)(simd::Vec)) {
  double worst = 0;
  for (double x = from; x < to; x += step) {
    const auto rounded = static_cast<float>(x);
    alignas(32) float out[8];
    _mm256_store_ps(out, function(simd::Set(rounded)));
    const double expected = exact(static_cast<double>(rounded));
    if (expected != 0) worst = std::max(worst, std::abs((out[5] - expected) / expected));
  }
  return worst;
}

TEST(Functions, AreAccurateRelativeToTheirValuesAlsoInTails) {
  const auto tanh = [](double x) { return std::tanh(x); };
  EXPECT_LT(WorstError(-12, 12, 0.00137, tanh, simd::Tanh), 4e-7);
  EXPECT_LT(WorstError(1e-6, 1e-2, 1.3e-6, tanh, simd::Tanh), 2e-7);
  const auto of = [](Function function) {
    return [function](double x) { return reference::Activation(function, x); };
  };
  EXPECT_LT(WorstError(-12, 12, 0.00137, of(Function::kSilu), simd::Silu::Value), 4e-7);
  EXPECT_LT(WorstError(-12.5, 12, 0.00137, of(Function::kGelu), simd::Gelu::Value), 1e-6);
  EXPECT_LT(WorstError(-4, 12, 0.00137, of(Function::kGeluTanh), simd::GeluTanh::Value), 4e-6);
}

}  // namespace
}  // namespace strata::kernels
